"""Any command on a node's files, in the sandbox of its trials, unrecorded."""

import subprocess
import sys
from pathlib import Path

import pytest

from .state import events


@pytest.fixture
def measured(code_place):
    code_place.loopty("run", "1")
    return code_place


def test_a_command_sees_what_the_draft_holds_now_and_nothing_is_recorded(measured):
    made = measured.json("new", "--parent", "1")
    (Path(made["workspace"]) / "src/x.txt").write_text("77\n")
    recorded, refs = events(measured), measured.git("for-each-ref")
    done = measured.loopty("try", "@2", "--", "sh", "-c", "cat src/x.txt; ls; echo oops >&2; exit 7", code=7)
    assert done.stdout == "77\nbench.sh\nloopty.toml\nsrc\n"
    assert done.stderr == "oops\n"
    assert events(measured) == recorded
    assert measured.git("for-each-ref") == refs
    assert (Path(made["workspace"]) / "src/x.txt").read_text() == "77\n"


def test_a_command_runs_on_a_judged_node_and_cannot_change_it(measured):
    done = measured.loopty("try", "1", "sh", "-c", "echo 9 > src/x.txt", code=None)
    assert done.returncode != 0
    assert measured.loopty("try", "1", "cat", "src/x.txt").stdout == "5\n"


def test_output_passes_through_while_the_command_runs(measured):
    argv = [sys.executable, "-m", "loopty.cli.main", "try", "1", "--", "sh", "-c", "echo first; sleep 60"]
    with subprocess.Popen(argv, cwd=measured.top, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"first\n"
        assert child.poll() is None
        child.terminate()
        assert child.wait(timeout=30) == 124


def test_a_limit_of_the_trials_ends_the_command(measured):
    done = measured.loopty("try", "1", "--timeout", "0.5", "--", "sleep", "60", code=124)
    assert done.stderr == "stopped: still running after 0.5 s\n"


def test_a_command_is_needed(measured):
    assert "COMMAND" in measured.loopty("try", "1", code=2).stderr
