"""A task is proven by changes that are planted into copies of its editable files."""

from types import SimpleNamespace

import pytest

from loopty import Campaign
from loopty.domain.objective import Direction
from loopty.features.setup.edited_tree import EditedTree
from loopty.features.setup.sensitivity import CheckCost, FaultEnd, SensitivityProof

LIBRARY = """\
import time

def total(numbers):
    time.sleep(0.02)
    result = 0
    for number in numbers:
        result = result + number
    return result
"""
LAZY = LIBRARY.replace("result = result + number", "yield number")
TASK = """\
[benchmark]
command = "python3 bench.py"
files = ["bench.py"]
timeout_seconds = 20
[objective]
direction = "{direction}"
[access]
write = ["library.py"]
{gate}
[proposer]
kind = "mutate"
[pools]
attempts = 3
"""
GATE = '[[gates]]\nname = "sums"\ncommand = "python3 -c \'import library; assert library.total([1, 2]) == 3\'"\n'
LAZY_GATE = GATE.replace("library.total([1, 2])", "sum(library.total([1, 2]))")
BENCH = """\
import json, os, time
import library
before = time.perf_counter()
{work}
seconds = time.perf_counter() - before
json.dump({{"score": {score}}}, open(os.environ["EVO_RESULT_PATH"], "w"))
"""


def proof(
    place,
    work="library.total(range(9))",
    score="seconds",
    direction="min",
    gate=GATE,
    usual=None,
    speed=True,
    library=LIBRARY,
):
    """Prove the task; its score is what a run gives, unless `usual` says it."""
    place.write("library.py", library)
    place.write("bench.py", BENCH.format(work=work, score=score))
    place.write("loopty.toml", TASK.format(direction=direction, gate=gate))
    place.commit()
    campaign = Campaign(place.top)
    campaign.trust(only_task_file=True)
    tree = EditedTree(campaign.context, unsafe=False)
    first = usual or tree.run({}).outcome.metrics["score"]
    return SensitivityProof(
        tree,
        usual=(first, first, first * 1.2),
        metric="score",
        label="score",
        direction=Direction(direction),
        is_speed=speed,
        cost=CheckCost(0.1, 0.1),
        seconds=60,
    ).prove()


def test_a_benchmark_of_the_code_is_proven(place):
    found = proof(place)
    assert not found.problem
    assert found.slowed is not None
    assert found.slowed > 1.5 * found.usual
    assert found.share is not None
    assert found.share > 0.5
    assert found.still is not None
    assert found.count(FaultEnd.CAUGHT) >= 1


def test_a_score_that_is_about_something_else_is_refused(place):
    found = proof(place, work="time.sleep(0.1)")
    assert "11 times as slow" in found.problem
    assert found.share == 0.0


def test_a_small_share_of_what_is_measured_is_refused(place):
    found = proof(place, work="time.sleep(0.8); library.total(range(9))")
    assert "% is something else" in found.problem


def test_a_delay_shows_the_direction(place):
    found = proof(place, direction="max")
    assert found.better is Direction.MIN
    assert not found.problem


def test_without_a_gate_a_wrong_result_is_not_noticed(place):
    found = proof(place, gate="", work="try: library.total(range(9))\nexcept Exception: time.sleep(0.02)")
    assert "no check noticed any" in found.problem


def test_a_crash_does_not_show_that_a_check_works(place):
    found = proof(place, gate="")
    assert "crashed" in found.problem or "no check noticed" in found.problem
    assert found.count(FaultEnd.CAUGHT) == 0


def test_a_generator_is_lengthened_too(place):
    found = proof(place, work="sum(library.total(range(9)))", gate=LAZY_GATE, library=LAZY)
    assert not found.problem
    assert found.highest_share is not None
    assert found.highest_share > 0.5


def test_a_quality_is_proven_by_faults(place):
    found = proof(place, score="library.total([1, 2, 3])", direction="max", gate="", speed=False)
    assert not found.problem
    assert found.count(FaultEnd.MOVED) + found.count(FaultEnd.CAUGHT) >= 1
    assert found.share is None


def test_a_quality_that_nothing_changes_is_refused(place):
    found = proof(place, work="pass", score="1.0", direction="max", gate="", usual=1.0, speed=False)
    assert "not about this code" in found.problem


@pytest.mark.parametrize("seconds", [0.0])
def test_without_time_it_says_what_was_not_tried(place, seconds):
    place.write("library.py", LIBRARY)
    place.write("bench.py", BENCH.format(work="library.total([1])", score="seconds"))
    place.write("loopty.toml", TASK.format(direction="min", gate=""))
    place.commit()
    campaign = Campaign(place.top)
    campaign.trust(only_task_file=True)
    tree = EditedTree(campaign.context, unsafe=False)
    found = SensitivityProof(
        tree, [1.0], "score", "score", Direction.MIN, is_speed=True, cost=CheckCost(1, 0), seconds=seconds
    ).prove()
    assert found.unknown == "there was no time left to plant a delay"
    assert not found.problem


def test_code_without_a_function_is_not_called_insensitive():
    tree = SimpleNamespace(writable=["kernel.mjs"], text=lambda _: "let x = 1;\nconsole.log(x);\n")
    proof = SensitivityProof(
        tree,
        usual=(1.0, 1.1, 1.0),
        metric="score",
        label="seconds",
        direction=Direction.MIN,
        is_speed=True,
        cost=CheckCost(1.0, 0.0),
        seconds=60.0,
    )
    found = proof.prove_delay()
    assert (found.problem, found.unknown) == ("", "there is no function in which a delay could be planted")
