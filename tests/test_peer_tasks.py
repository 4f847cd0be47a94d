"""Published tasks of other tools score as the tools themselves score them.

`LOOPTY_PEER_TASKS=FOLDER LOOPTY_PEER_PYTHON=PEERS/bin/python3 pytest tests/test_peer_tasks.py` runs the tasks in a
folder; they are not in this repository.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
_spec = importlib.util.spec_from_file_location("peer_tasks", TOP / "benchmarks/peer_tasks.py")
script = sys.modules["peer_tasks"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(script)

FOLDER = os.environ.get("LOOPTY_PEER_TASKS", "")
TASKS = script.tasks_below(Path(FOLDER)) if FOLDER else []


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("task", TASKS, ids=str)
@pytest.mark.skipif(not FOLDER, reason="no tasks of other tools: LOOPTY_PEER_TASKS names no folder")
def test_a_published_task_scores_as_its_own_tool_scores_it(task):
    row = script.compare(Path(FOLDER), task, os.environ.get("LOOPTY_PEER_PYTHON", "python3"), 1)
    assert row.is_equal, row


def test_the_page_shows_the_recorded_scores_of_twenty_tasks_of_five_tools():
    rows = json.loads((TOP / "benchmarks/recorded/peer_tasks.json").read_text())
    assert script.as_table(rows) in (TOP / "docs/other-tools.md").read_text()
    equal = [row for row in rows if row["equal"]]
    assert len(equal) >= 20
    assert len({row["tool"] for row in equal}) >= 5


def test_scores_that_vary_are_equal_if_their_ranges_meet():
    def row(ours, theirs):
        return script.Row("", "", ours, theirs, "").is_equal

    assert row([1.0, 1.0], [1.0])
    assert row([1.0, 2.0], [1.5, 1.6])
    assert not row([1.0, 1.1], [1.2])
    assert not row([], [1.0])
