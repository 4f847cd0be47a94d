"""A pruned trial is asked to stop, then killed; the metrics it reported are kept."""

import pytest

from loopty.domain.outcome import Ending, Verdict

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
