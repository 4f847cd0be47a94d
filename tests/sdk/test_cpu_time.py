"""The command that publishes another command's CPU time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from .conftest import SDK

WORK = "sum(range(3_000_000))"


def run(trial: Any, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "loopty_sdk.cpu_time", *words],
        env={**os.environ, **trial.environment, "PYTHONPATH": str(SDK / "python"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_time_of_the_command_and_of_its_children_is_the_score(trial: Any) -> None:
    assert (
        run(trial, sys.executable, "-c", f"import os; os.system('{sys.executable} -c \"{WORK}\"')").returncode == 0
    )
    result = trial.result()
    assert result["score"] > 0
    assert result["wall_seconds"] > 0


def test_a_single_word_is_a_shell_line(trial: Any) -> None:
    assert run(trial, "echo one; echo two >&2; true").stdout == "one\n"
    assert trial.result()["score"] >= 0


@pytest.mark.parametrize(("line", "code"), [("exit 3", 3), ("kill -9 $$", 137), ("no-such-program", 127)])
def test_a_command_that_fails_has_no_result(trial: Any, line: str, code: int) -> None:
    assert run(trial, line).returncode == code
    assert not trial.result_path.exists()


def test_a_program_that_is_missing_is_named_as_a_shell_does(trial: Any) -> None:
    done = run(trial, "no-such-program", "--version")
    assert (done.returncode, done.stderr) == (127, "no-such-program: not found\n")


def test_outside_a_trial_it_prints_the_result(trial: Any) -> None:
    done = run(trial, "true", EVO_RESULT_PATH="")
    assert set(json.loads(done.stdout)) == {"score", "wall_seconds"}


def test_without_a_command_it_says_how_it_is_used(trial: Any) -> None:
    done = run(trial)
    assert done.returncode == 2
    assert "usage" in done.stderr


def test_the_time_can_go_beside_the_result_of_the_command(trial: Any, tmp_path: Any) -> None:
    place = tmp_path / "time.json"
    place.write_text("left by the command")
    assert run(trial, "--to", str(place), "sh", "-c", "echo '{\"score\": 7}' > $EVO_RESULT_PATH").returncode == 0
    assert trial.result()["score"] == 7
    assert json.loads(place.read_text())["score"] >= 0
