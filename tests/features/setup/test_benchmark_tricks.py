"""Known tricks against benchmarks that fall for them, and one that does not."""

import ast

from loopty import Campaign
from loopty.features.setup.benchmark_tricks import TRICKS, Standing, attack_benchmark, with_trick
from loopty.features.setup.edited_tree import EditedTree

TASK = """\
[benchmark]
command = "python3 bench.py"
files = ["bench.py", "expected.txt"]
timeout_seconds = 20
{isolated}
[objective]
direction = "min"
[access]
write = ["library.py"]
[proposer]
kind = "mutate"
"""
LIBRARY = """\
def total(count):
    result = 0
    for number in range(count):
        result += number
    return result
"""
GULLIBLE = """\
import json, os, time
json.dump({"score": 5.0}, open(os.environ["EVO_RESULT_PATH"], "w"))
import library
before = time.perf_counter()
for _ in range(40):
    library.total(200_000)
json.dump({"score": time.perf_counter() - before}, open(os.environ["EVO_RESULT_PATH"], "w"))
"""
STRICT = """\
import json, os, time
import library
library.total(10)
seconds = 0.0
for count in range(200_000, 200_020):
    before = os.times().user
    assert library.total(count) == count * (count - 1) // 2
    seconds += os.times().user - before
json.dump({"score": 1.0 + seconds / 1000}, open(os.environ["EVO_RESULT_PATH"], "w"))
"""


def results_of(place, bench, expected="expected.txt"):
    for name, text in (("library.py", LIBRARY), ("bench.py", bench), (expected, "499\n")):
        place.write(name, text)
    place.write("loopty.toml", TASK.format(isolated="").replace("expected.txt", expected))
    place.commit()
    campaign = Campaign(place.top)
    campaign.trust(only_task_file=True)
    results = []
    attack_benchmark(EditedTree(campaign.context, False), campaign.context.task.objective, results.append)
    return {result.trick: result for result in results}


def test_a_gullible_benchmark_shows_each_hole_with_its_candidate_and_remedy(place):
    found = results_of(place, GULLIBLE)
    assert {name for name, result in found.items() if result.standing is Standing.HOLE} == {
        trick.name for trick in TRICKS
    }
    for result in found.values():
        assert result.patch.startswith("--- a/library.py")
        assert result.mend
    assert found["reading expected values"].detail == "a candidate can read ./expected.txt"


def test_a_benchmark_that_compares_each_answer_of_new_inputs_holds(place):
    found = results_of(place, STRICT, "data.txt")
    assert {result.standing for result in found.values()} == {Standing.HELD}
    assert not any(result.patch for result in found.values())


def test_tricks_stay_within_the_block_and_are_left_out_where_they_do_not_fit():
    trick = next(one for one in TRICKS if one.name == "cached answers")
    text = "A = 1\n# EVOLVE-BLOCK-START\ndef f():\n    return 1\n# EVOLVE-BLOCK-END\nB = 2\n"
    changed = with_trick(text, trick)
    assert changed.startswith("A = 1\n# EVOLVE-BLOCK-START\n")
    assert changed.endswith("# EVOLVE-BLOCK-END\nB = 2\n")
    inside = "A = {\n    # EVOLVE-BLOCK-START\n    'b': 1,\n    # EVOLVE-BLOCK-END\n}\n"
    assert with_trick(inside, trick) == ""
    future = with_trick("from __future__ import annotations\nA = 1\n", trick)
    compile(ast.parse(future), "f", "exec")
