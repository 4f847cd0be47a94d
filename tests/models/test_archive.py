"""Calls are kept exactly, durably, and without keys."""

import os

import pytest

from loopty.core.errors import Misuse
from loopty.core.ids import NodeId
from loopty.core.model import Prompt, Reply, Speaker, Turn, Usage
from loopty.models.archive import Archive

PROMPT = Prompt(
    "Sei knapp. 🙂\n",
    (Turn(Speaker.ASKER, 'tabs\t "quotes" \\ \udcff'), Turn(Speaker.MODEL, "yes"), Turn(Speaker.ASKER, "and?")),
    {"type": "object", "properties": {"x": {"type": "number", "maximum": 1}}},
    512,
)
REPLY = Reply("so\n", Usage(10, 20, 5, 15), whole=False)
CALL = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def archive(tmp_path):
    return Archive(tmp_path / "calls", lambda: 12.5)


def test_a_call_comes_back_as_it_was(archive):
    archive.keep(CALL, PROMPT, REPLY, model="openai:m", role="evolver", operator="guess", node=NodeId("1.2"))
    kept = archive.record(CALL)
    assert (kept.prompt, kept.reply, kept.failure) == (PROMPT, REPLY, "")
    assert (kept.call, kept.at, kept.model, kept.role, kept.operator, kept.node) == (
        CALL,
        12.5,
        "openai:m",
        "evolver",
        "guess",
        "1.2",
    )
    assert archive.reply(CALL) == REPLY


def test_a_failure_is_kept_with_its_prompt(archive):
    archive.keep(CALL, PROMPT, None, "503: down")
    assert archive.record(CALL).failure == "503: down"
    with pytest.raises(Misuse, match="not in"):
        archive.reply(CALL)


@pytest.mark.parametrize(
    "content", [b"", b'{"call": "x"', b"[]", b"{}", b"\xff\xfe", b'{"prompt": 3}', b"[" * 10**5]
)
def test_a_torn_or_missing_file_is_no_call(archive, tmp_path, content):
    assert archive.record(CALL) is None
    archive.keep(CALL, PROMPT, REPLY)
    (tmp_path / "calls" / f"{CALL}.json").write_bytes(content)
    assert archive.record(CALL) is None
    assert list(archive.records()) == []
    with pytest.raises(Misuse, match=r"put the file back, or start anew"):
        archive.reply(CALL)


def test_a_torn_file_of_a_later_version_is_read_as_far_as_it_is_known(archive, tmp_path):
    archive.keep(CALL, PROMPT, REPLY)
    file = tmp_path / "calls" / f"{CALL}.json"
    file.write_bytes(file.read_bytes().replace(b'{"call"', b'{"colour": "blue", "call"'))
    assert archive.reply(CALL) == REPLY


def test_the_file_and_its_name_are_on_the_disk_before_it_returns(archive, tmp_path, monkeypatch):
    steps = []
    real_sync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: (steps.append("sync"), real_sync(number)))
    monkeypatch.setattr(os, "replace", lambda *names: (steps.append("rename"), real_replace(*names)))
    archive.keep(CALL, PROMPT, REPLY)
    assert steps == ["sync", "rename", "sync"]
    assert [path.name for path in (tmp_path / "calls").iterdir()] == [f"{CALL}.json"]


def test_no_name_leads_out_of_the_folder(archive):
    for name in ("../ledger", "a/b", "", ".."):
        with pytest.raises(Misuse):
            archive.record(name)


def test_keys_are_taken_out_and_stand_ins_for_keys_are_not(archive, tmp_path):
    for key in ("secret-secret", "secret-secret-longer", "x", None):
        archive.hide(key)
    archive.keep(
        CALL, Prompt("secret-secret-longer x", (), {"secret-secret": ["secret-secret"]}), Reply("x", Usage())
    )
    assert archive.record(CALL).prompt == Prompt("[key] x", (), {"[key]": ["[key]"]})
    assert "secret" not in (tmp_path / "calls" / f"{CALL}.json").read_text()


def test_calls_are_listed_oldest_first(tmp_path):
    now = iter((3.0, 1.0, 2.0))
    archive = Archive(tmp_path, lambda: next(now))
    for name in ("a", "b", "c"):
        archive.keep(name, PROMPT, REPLY)
    assert [kept.call for kept in archive.records()] == ["b", "c", "a"]
