"""`warm = true`: trials start as copies of a process that has imported the benchmark's packages."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

TASK = """
[benchmark]
command = "{command}"
timeout_seconds = 60
warm = true
{more}
[access]
write = ["program.py"]
[proposer]
kind = "mutate"
[pools]
attempts = 2
"""
# 1 when the package was there before the script asked for it, and the seed is the trial's own.
BENCH = """
import sys
was_there = "decimal" in sys.modules
import decimal, os
from loopty_sdk import Run
from program import VALUE
with Run() as run:
    run.log_task("warm", float(was_there and int(os.environ["LOOPTY_SEED"]) == run.seed and VALUE == 3))
"""
ISOLATED = """
import sys
was_there = "decimal" in sys.modules
import decimal
from loopty_sdk import Run, candidate
with Run() as run, candidate("program.py:value") as value:
    run.log_task("warm", float(was_there and value() == 3))
"""
EVALUATOR = """
import sys
was_there = "decimal" in sys.modules
import decimal

def evaluate(path):
    return {"combined_score": float(was_there and "VALUE" in open(path).read())}

def evaluate_stage1(path):
    return evaluate(path)
"""
CASCADE = """
[[benchmark.cascade]]
name = "first"
command = "python3 -m loopty_sdk.evaluate_program evaluator.py program.py --stage 1"
minimum = 0.5
"""


def baseline_score(place, command: str, more: str = "") -> float:
    place.write("program.py", "VALUE = 3\ndef value():\n    return 3\n")
    place.write("loopty.toml", TASK.format(command=command, more=more))
    place.commit()
    done = place.loopty("optimize")
    assert "`warm` has no effect" not in done.stdout + done.stderr
    return place.json("show", "1")["outcome"]["metrics"]["score"]


def warm_processes() -> list[int]:
    return [pid for pid in all_pids() if "/loopty-program" in command_line(pid)]


def all_pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def is_below(pid: int, ancestor: int) -> bool:
    while pid > 1 and pid != ancestor:
        pid = parent_of(pid)
    return pid == ancestor


def test_a_script_starts_as_a_copy(place):
    place.write("bench.py", BENCH)
    assert baseline_score(place, "python3 bench.py") == 1


def test_an_isolated_script_starts_as_a_copy_and_its_candidate_apart(place):
    place.write("bench.py", ISOLATED)
    assert baseline_score(place, "python3 bench.py", "isolated = true") == 1
    assert place.json("show", "1")["outcome"]["integrity"] == "strong"


def test_an_evaluate_function_and_the_stages_before_it_start_as_copies(place):
    place.write("evaluator.py", EVALUATOR)
    command = "python3 -m loopty_sdk.evaluate_program evaluator.py program.py"
    assert baseline_score(place, command, CASCADE) == 1
    assert place.json("show", "1")["outcome"]["cascade"][0]["value"] == 1


def test_a_package_that_the_repository_has_is_never_shared(place):
    place.write("bench.py", "import sys; sys.path.insert(0, 'lib')\n" + BENCH)
    place.write("lib/decimal.py", "OWN = 1\n")
    assert baseline_score(place, "python3 bench.py") == 0


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("writable_copy = true", "the benchmark runs in a writable copy"),
        ("[sandbox]\nkind = 'bubblewrap'", "the back end is bubblewrap, and only namespaces has warm processes"),
    ],
)
def test_a_benchmark_that_cannot_be_warm_runs_as_before_and_says_why_once(more, reason, place):
    place.write("bench.py", BENCH)
    place.write("program.py", "VALUE = 3\n")
    place.write("loopty.toml", TASK.format(command="python3 bench.py", more=more))
    place.commit()
    done = place.loopty("optimize")
    assert (done.stdout + done.stderr).count(f"`warm` has no effect: {reason}") == 1
    assert place.json("show", "1")["outcome"]["metrics"]["score"] == 0


# A copy waits for ever, after it has reported; a script that starts by itself reports once more.
WAIT = """
import sys
is_copy = "decimal" in sys.modules
import decimal, os, time
from loopty_sdk import Run
with Run() as run:
    run.log_task("x", 1.0 if is_copy else 0.5)
if is_copy:
    print("waits", flush=True)
    time.sleep(1000)
"""


def test_no_trial_is_lost_when_the_warm_process_is_killed(place):
    place.write("bench.py", WAIT)
    place.write("program.py", "VALUE = 3\n")
    place.write(
        "loopty.toml", TASK.format(command="python3 bench.py", more="").replace("attempts = 2", "attempts = 0")
    )
    place.commit()
    process = place.start("optimize")
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        # Not by glob, which fails when a trial ends, and its folder goes, while it looks.
        if any("result.json" in files for _, _, files in os.walk(place.state / "trials")):
            for pid in warm_processes():
                if is_below(pid, process.pid):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    assert place.json("show", "1")["outcome"]["metrics"]["score"] == 0.5
