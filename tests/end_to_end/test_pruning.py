"""A pruned trial is asked to stop, then killed; the metrics it reported are kept."""

import re
from pathlib import Path

import pytest

from loopty.domain.trial import Ending, Verdict

TASK = """
[benchmark]
command = "python3 bench.py"
timeout_seconds = 30
grace_seconds = {grace}
[parameters.slope]
type = "categorical"
choices = [5, 6, 1]
default = 5
[pools]
attempts = 2
[proposer]
kind = "grid"
[pruner]
kind = "median"
warmup_steps = 1
startup_trials = 1
"""
BENCH = """\
import json, os, time
slope = json.load(open(os.environ["LOOPTY_PARAMS"]))["slope"]
with open(os.environ["LOOPTY_METRICS_CSV"], "w") as csv:
    csv.write("iteration,height,cost (lower is better)\\n")
    for step in range(1, 4 if slope > 1 else 100):
        csv.write(f"{step},{slope * step},{step}\\n")
        csv.flush()
        time.sleep(0.15 if slope == 1 else 0)
        if HEEDS and os.path.exists(os.environ["LOOPTY_STOP_PATH"]):
            open(os.environ["EVO_TRACES_DIR"] + "/task_stop.json", "w").write('{"heeded": true}')
            break
"""


@pytest.mark.parametrize("heeds", [True, False])
def test_a_trial_that_cannot_become_good_is_pruned_and_its_partial_metrics_are_kept(place, heeds):
    place.write("loopty.toml", TASK.format(grace=20 if heeds else 0.3))
    place.write("bench.py", BENCH.replace("HEEDS", str(heeds)))
    place.commit()
    place.loopty("optimize", "--quiet")
    history = place.history()
    better, doomed = sorted((history["1.1"], history["1.2"]), key=lambda node: -node.params["slope"])
    assert (better.params["slope"], doomed.params["slope"]) == (6, 1)
    assert (better.outcome.ending, better.verdict) == (Ending.FINISHED, Verdict.KEPT)
    assert better.outcome.metrics == {"height": 18, "cost": 3}
    assert (doomed.outcome.ending, doomed.verdict) == (Ending.PRUNED, Verdict.DISCARDED)
    assert "median" in doomed.outcome.reason
    place.loopty("show", doomed.id)
    folder = place.top / ".loopty/nodes" / doomed.id
    rows = (folder / "metrics.csv").read_text().splitlines()
    assert rows[0] == "iteration,height,cost (lower is better)"
    assert 2 <= len(rows) < 90
    assert doomed.outcome.metrics == {"height": len(rows) - 1, "cost": len(rows) - 1}
    assert doomed.outcome.step == len(rows) - 1
    assert (folder / "traces/task_stop.json").exists() is heeds
    assert "pruned" in place.loopty("tree").stdout


def test_a_finished_metrics_stream_alone_is_a_result(place):
    task = TASK.format(grace=5).replace("attempts = 2", "attempts = 1").replace("[5, 6, 1]", "[5, 6]")
    place.write("loopty.toml", task)
    place.write("bench.py", BENCH.replace("HEEDS", "True"))
    place.commit()
    place.loopty("optimize", "--quiet")
    assert place.json("show", "1")["outcome"]["metrics"] == {"height": 15.0, "cost": 3.0}
    assert place.json("status")["metric"] == "height"


def documented_example() -> str:
    """The example of the manual on learning curves, of which each step takes a moment."""
    manual = (Path(__file__).parents[2] / "docs/benchmarks.md").read_text()
    (code,) = (
        block for block in re.findall(r"```python\n(.*?)```", manual, re.DOTALL) if "run.report(step" in block
    )
    assert "run.finish(" in code
    return code.replace("    if run.should_stop", "    __import__('time').sleep(0.25)\n    if run.should_stop")


LEARNING = """
[benchmark]
command = "python3 bench.py"
timeout_seconds = 30
[parameters.learning_rate]
type = "categorical"
choices = [0.5, 0.6, 0.7, 0.1]
default = 0.5
[pools]
attempts = 3
[proposer]
kind = "grid"
[pruner]
kind = "median"
startup_trials = 2
[noise]
repeat = "never"
confirm = 0
"""


def optimized(place, bench: str):
    place.write("loopty.toml", LEARNING)
    place.write("bench.py", bench)
    place.commit()
    done = place.loopty("optimize", "--quiet")
    return done.stderr, [node.outcome.ending for node in map(place.history().__getitem__, place.history().ids)]


def test_the_example_of_the_manual_is_pruned_though_it_reports_its_score_only_at_its_end(place):
    said, endings = optimized(place, documented_example())
    assert endings.count(Ending.PRUNED) == 1
    assert "the pruner" not in said
    shown = place.loopty("show", "best").stdout
    assert "score (higher is better) by step; · its parent" in shown
    assert shown.count("●") >= 5


def test_a_benchmark_that_reports_nothing_is_told_once_in_the_run_and_at_the_end(place):
    said, endings = optimized(place, documented_example().replace("run.report(", "print("))
    assert Ending.PRUNED not in endings
    assert said.count("the pruner stops no trial: the benchmark reports no metrics while it runs") == 2
