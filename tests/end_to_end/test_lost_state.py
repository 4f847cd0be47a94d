"""State that is removed or turned read-only: one line, at once, nothing lost that can be kept."""

import json
import os
import shutil
import subprocess
import time

import pytest

from .conftest import ECHO_X, PARAMETER_TASK
from .state import event_count, has_description

SLOW = 'sleep 0.5; echo "{\\"score\\": 1}" > "$EVO_RESULT_PATH"'
READING = (
    ["status"],
    ["tree"],
    ["report"],
    ["best"],
    ["show", "1"],
    ["diff", "1"],
    ["spend"],
    ["gate", "list"],
    ["audit", "--list"],
)


@pytest.fixture
def slow(place):
    place.write("loopty.toml", PARAMETER_TASK.format(attempts=60, command="'''" + SLOW + "'''"))
    place.commit()
    return place


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def start_and_wait_for_results(place):
    process = place.start("optimize", "--quiet")
    until(lambda: event_count(place, "node-judged") > 1 or process.poll() is not None)
    assert process.poll() is None, process.stderr.read()
    return process


def only_line(process) -> str:
    """What the process said last; it ends soon, without a traceback."""
    _, output = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "Traceback" not in output
    lines = [line for line in output.splitlines() if line.startswith("loopty: ")]
    assert len(lines) == 1, output
    return lines[0]


@pytest.mark.parametrize("lost", ["the ledger", "the state"])
def test_a_state_that_is_removed_while_a_run_goes_on_is_saved_again(slow, lost):
    process = start_and_wait_for_results(slow)
    if lost == "the state":
        # Away at once: loopty makes folders in it, and removes some, while it is removed.
        shutil.rmtree(slow.state.rename(slow.top.with_name("removed")), ignore_errors=True)
    else:
        for path in slow.state.glob("ledger.sqlite*"):
            path.unlink()
    assert "nothing is lost" in only_line(process)
    history = slow.history()
    decided = {node: history[node].verdict for node in history.ids}
    assert all(list(decided.values())[:2]), f"with the results of before: {decided}"
    slow.loopty("status")
    slow.write("loopty.toml", (slow.top / "loopty.toml").read_text().replace("attempts = 60", "attempts = 4"))
    slow.loopty("optimize", "--quiet", code=None)
    resumed = slow.history()
    assert resumed.run.number == history.run.number
    assert not any(resumed[node].running for node in resumed.ids)


@pytest.fixture
def mounted(slow):
    """A disk of its own for the state, and one for the copies; a test can make them read-only."""
    folders = {"state": slow.state, "copies": slow.top / ".loopty"}
    for folder in folders.values():
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "none", folder]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("no disk can be mounted here")
    yield folders
    for folder in folders.values():
        subprocess.run(["umount", "-l", folder], check=True)


def make_read_only(folder):
    # The disk itself, so that processes in other mount namespaces see it, too.
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)


def test_copies_that_cannot_be_written_cost_no_result_and_are_made_later(slow, mounted):
    command = json.dumps(f"sleep 0.1; {ECHO_X}")  # a score that some attempts improve
    slow.write("loopty.toml", PARAMETER_TASK.format(attempts=12, command=command))
    slow.commit()
    process = start_and_wait_for_results(slow)
    make_read_only(mounted["copies"])
    _, output = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in output
    history = slow.history()
    assert len([*history.ids]) == 13
    assert all(history[node].verdict and not history[node].losses for node in history.ids)
    best = slow.json("best")["id"]
    copy = mounted["copies"] / "nodes" / best / "analysis.md"
    assert not copy.exists()
    subprocess.run(["mount", "-o", "remount,rw", mounted["copies"]], check=True)
    slow.loopty("show", best)
    assert copy.exists()


@pytest.mark.parametrize("log", ["with a log", "without"])
def test_reading_verbs_work_on_a_read_only_state(slow, mounted, log):
    slow.loopty("run", "1")
    if log == "with a log":
        # A process that is killed leaves its write-ahead log.
        process = slow.start("optimize", "--quiet")
        until(lambda: has_description(slow, "1.1"))
        process.kill()
        process.communicate()
        assert (slow.state / "ledger.sqlite-wal").stat().st_size
    before = slow.loopty("tree").stdout
    for folder in mounted.values():
        make_read_only(folder)
    for verb in READING:
        assert slow.loopty(*verb).stdout is not None
    if log == "without":
        assert slow.loopty("tree").stdout == before
    output = slow.loopty("optimize", code=2).stderr
    assert output.count("\n") == 1
    assert "writable" in output
    assert not list(slow.top.parent.glob("loopty-ledger-*"))
