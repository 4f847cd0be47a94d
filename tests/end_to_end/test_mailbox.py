"""The mailbox: agents whose shells may open no socket call tools by files, and hostile files harm nobody."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loopty.record.directives import Notes

from .test_mcp import LOOPTY, agents  # noqa: F401 - a fixture


@pytest.fixture
def server(agents):  # noqa: F811
    """A process that answers the calls in the mailbox of a repository."""
    command = [*LOOPTY, "tool", "--mailbox"]
    process = subprocess.Popen(command, cwd=agents.top, stderr=subprocess.PIPE, text=True)
    assert "answering calls in" in process.stderr.readline()
    yield process
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert "Traceback" not in said, said


@pytest.fixture
def box(agents, server):  # noqa: ARG001, F811
    """A repository whose mailbox is read."""
    return agents


def tool(place, *words: str) -> subprocess.CompletedProcess:
    """What a sandboxed shell does."""
    command = [sys.executable, ".loopty/tool", *words]
    return subprocess.run(command, cwd=place.top, capture_output=True, text=True, timeout=120)


def letter(place, name: str) -> Path:
    return place.top / ".loopty/mail/in" / name


def reply(place, name: str) -> dict:
    path = place.top / ".loopty/mail/out" / name
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, "no reply"
        time.sleep(0.02)
    return json.loads(path.read_bytes())


def test_an_experiment_is_made_through_files_alone(box):
    assert "TASK" in tool(box, "context").stdout
    done = tool(box, "open", "hypothesis=nine is more", "surface=the number")
    assert "Opened @2" in done.stdout
    (box.top / ".loopty/drafts/1.1/src/x.txt").write_text("9\n")
    done = tool(box, "submit", '{"id": "1.1"}')
    while "still running" in done.stdout:
        done = tool(box, "wait", "id=1.1")
    assert "@2 kept" in done.stdout, done.stderr
    wrong = tool(box, "open")
    assert wrong.returncode == 1
    assert "needs hypothesis" in wrong.stdout
    assert box.git("status", "--porcelain") == ""


def test_hostile_letters_are_answered_or_ignored_and_harm_nobody(box, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text('{"tool": "context", "arguments": {}}')
    letter(box, "link.json").symlink_to(secret)
    os.mkfifo(letter(box, "fifo.json"))
    letter(box, "folder.json").mkdir()
    os.link(secret, letter(box, "hard.json"))
    letter(box, "huge.json").write_bytes(b"x" * (2 << 20))
    letter(box, "empty.json").write_bytes(b"")
    letter(box, "list.json").write_bytes(b"[1]")
    for name in ("link", "fifo", "folder", "hard", "huge", "empty", "list"):
        assert "error" in reply(box, f"{name}.json"), name
    assert secret.exists()
    letter(box, "bad name.json").write_text(secret.read_text())
    letter(box, ".hidden.json").write_text(secret.read_text())
    target = tmp_path / "target"
    target.write_text("mine")
    (box.top / ".loopty/mail/out/good.json").symlink_to(target)
    letter(box, "good.json").write_text(secret.read_text())
    end = time.monotonic() + 60
    while (box.top / ".loopty/mail/out/good.json").is_symlink():
        assert time.monotonic() < end
        time.sleep(0.02)
    assert "TASK" in reply(box, "good.json")["text"]
    assert target.read_text() == "mine", "a reply follows no link"
    assert letter(box, "bad name.json").exists()


def test_a_flood_of_letters_is_answered(box):
    call = json.dumps({"tool": "wait", "arguments": {"id": "t1.9"}})
    for number in range(40):
        letter(box, f"n{number}.json").write_text(call)
    assert all("error" in reply(box, f"n{number}.json") for number in range(40))


def test_two_processes_on_one_mailbox_answer_each_letter_once(box):
    with subprocess.Popen([*LOOPTY, "tool", "--mailbox"], cwd=box.top, stderr=subprocess.PIPE, text=True) as other:
        assert "answering calls in" in other.stderr.readline()
        for number in range(12):
            call = {"tool": "note", "arguments": {"text": f"note {number}"}}
            letter(box, f"n{number}.json").write_text(json.dumps(call))
        assert all("Noted" in reply(box, f"n{number}.json")["text"] for number in range(12))
        other.send_signal(signal.SIGINT)
    assert Notes.of(box.history().run).count == 12


def test_a_call_without_a_mailbox_says_how_to_open_one(box):
    (box.top / ".loopty/mail/in").rename(box.top / ".loopty/mail/away")
    done = tool(box, "context")
    assert done.returncode == 2
    assert "start `loopty tool --mailbox` outside" in done.stderr
