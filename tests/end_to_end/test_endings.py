"""Every way for a run to end has its reason and its exit code."""

import json
import os
import subprocess

import pytest

from loopty.record.sessions import Session
from loopty.record.trials import TrialCounts

from .conftest import ECHO_X, PARAMETER_TASK

FAILING = 'grep -q "\\"x\\": 0.5" "$LOOPTY_PARAMS" && ' + ECHO_X


def begin(place, command: str = ECHO_X, attempts: int = 3, pools: str = "", head: str = "") -> None:
    place.write(
        "loopty.toml", head + PARAMETER_TASK.format(attempts=attempts, command=json.dumps(command)) + pools
    )
    place.commit()


def ending(place, code: int) -> str:
    closing = json.loads(place.loopty("optimize", "--json", code=code).stdout)
    assert closing["sound"] is (code == 0)
    return closing["reason"]


def test_attempts(place):
    begin(place)
    assert ending(place, 0) == "all 3 attempt trials are spent"
    assert ending(place, 0) == "all 3 attempt trials are spent"
    assert len(TrialCounts.of(place.history().run, "attempt").endings) == 1


def test_without_attempts_only_the_baseline_is_measured(place):
    begin(place, attempts=0)
    ending(place, 0)
    assert list(place.history().ids) == ["1"]


def test_time_limit(place):
    begin(place, f"sleep 0.2; {ECHO_X}", 500, "wall_seconds = 2\n")
    assert ending(place, 0) == "the time limit of 2 s is reached"
    assert ending(place, 0) == "the time limit of 2 s is reached"
    assert Session.of(place.history().run).seconds < 30


def test_a_time_limit_before_the_first_attempt_is_no_success(place):
    begin(place, f"sleep 1.5; {ECHO_X}", 500, "wall_seconds = 2\n")
    assert ending(place, 1) == "the time limit of 2 s is reached"


def test_patience(place):
    begin(place, 'echo "{\\"score\\": 1}" > "$EVO_RESULT_PATH"', 50, "patience = 3\n")
    assert ending(place, 0) == "no improvement in the last 3 attempts"


def test_target(place):
    begin(place, attempts=200, pools="target = 0.6\n")
    assert "reached the target of 0.6" in ending(place, 0)
    assert TrialCounts.of(place.history().run, "attempt").started < 100


def test_a_target_that_the_baseline_reaches_is_a_success(place):
    begin(place, pools="target = 0.1\n")
    assert "@1 reached the target" in ending(place, 0)


def test_an_exhausted_space(place):
    grid = '[proposer]\nkind = "grid"\n[parameters.y]\ntype = "categorical"\nchoices = ["a", "b"]\n'
    text = PARAMETER_TASK.format(attempts=50, command=json.dumps('echo "{\\"score\\": 1}" > "$EVO_RESULT_PATH"'))
    place.write("loopty.toml", text[: text.index("[parameters.x]")] + "[pools]\nattempts = 50\n" + grid)
    place.commit()
    assert "grid" in ending(place, 0)


def test_nothing_succeeded(place):
    begin(place, FAILING)
    assert ending(place, 1) == "all 3 attempt trials are spent"
    assert place.json("best")["id"] == "1"


@pytest.mark.parametrize("command", ["echo it broke >&2; exit 3", "true", 'echo "{}" > "$EVO_RESULT_PATH"'])
def test_a_broken_baseline_is_reported_with_its_reason_and_the_remedy(place, command):
    begin(place, command)
    done = place.loopty("optimize", code=1)
    output = done.stdout.replace("\n", " ")
    assert "the baseline @1 gave no result" in output
    assert "then run: loopty run" in done.stderr
    assert list(place.history().ids) == ["1"]
    assert "there is no result yet" in place.loopty("best", code=1).stderr
    assert place.loopty("status").stdout


def test_a_metric_that_the_baseline_does_not_report(place):
    begin(place, head='[[objective.metrics]]\nname = "speed"\ndirection = "max"\n')
    assert "speed" in ending(place, 1)


def files_allowed(disk, count: int) -> None:
    subprocess.run(["mount", "-o", f"remount,nr_inodes={count}", disk], check=True)


@pytest.mark.parametrize("spare", [1, 3, 6, 10])
def test_a_disk_without_free_inodes_is_reported_in_one_line_and_the_run_can_be_resumed(place, small_disk, spare):
    begin(place)
    disk = os.statvfs(small_disk)
    files_allowed(small_disk, disk.f_files - disk.f_ffree + spare)
    output = place.loopty("optimize", "--quiet", code=2).stderr
    assert len(output.strip().splitlines()) == 1
    assert "space" in output
    files_allowed(small_disk, 10_000)
    assert ending(place, 0) == "all 3 attempt trials are spent"
