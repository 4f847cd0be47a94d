"""Audits as text."""

from __future__ import annotations

import re

import pytest

from loopty.domain.ids import NodeId
from loopty.kit.records import replace
from loopty.show.audits import AuditRow, Flag, Suspicion, audits_text
from loopty.show.terminal import Terminal, width

BASELINE = AuditRow(NodeId("1"), 4, 0.0, "3f2a", 1, "score", 0.5, None, 0.4, None, None, "", "m", handle=1)
HONEST = AuditRow(NodeId("1.1"), 2, 60.0, "3f2a", 2, "score", 0.9, 0.4, 0.75, 0.35, 0.875, "", "m", handle=2)
WORDS = (
    "better by 0.5 in the search, but worse by 0.2 on the held-out split: it fits the search's data, not the task"
)
OVERFIT = AuditRow(
    NodeId("1.2"),
    2,
    120.0,
    "3f2a",
    3,
    "score",
    1.0,
    0.5,
    0.2,
    -0.2,
    0.0,
    "",
    "m",
    (Flag(Suspicion.OVERFITTING, WORDS),),
    handle=3,
)
LOST = replace(BASELINE, number=5, look=4, held_out=None, ended="lost: the process that ran it died")

TEXT = """
split 3f2a  score

look  node  when         search  gain  held out   gain  survives
   1  @1    MM-DD HH:MM     0.5             0.4
   2  @2    MM-DD HH:MM     0.9  +0.4      0.75  +0.35      88 %
   3  @3    MM-DD HH:MM       1  +0.5       0.2   -0.2      none
   4  @1    MM-DD HH:MM     0.5
      lost: the process that ran it died

@3 overfitting: better by 0.5 in the search, but worse by 0.2 on the held-out
split: it fits the search's data, not the task

4 looks at this split
"""


def test_a_line_for_each_look_then_suspicions_and_the_count():
    text = audits_text([BASELINE, HONEST, OVERFIT, LOST])
    assert re.sub(r"\d\d-\d\d \d\d:\d\d", "MM-DD HH:MM", text) == TEXT.strip()


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_the_text_keeps_to_the_columns(columns: int):
    deep = replace(OVERFIT, node=NodeId("1" + ".12" * 60), search=123456.789, search_gain=-123456.789)
    text = audits_text([BASELINE, deep, LOST], columns)
    assert max(map(width, text.splitlines())) <= columns


def test_splits_have_separate_blocks():
    text = audits_text([BASELINE, replace(HONEST, split="9b1c", look=1)])
    assert [line for line in text.splitlines() if line.startswith("split")] == [
        "split 3f2a  score",
        "split 9b1c  score",
    ]
    assert text.count("1 look at this split") == 2


@pytest.mark.parametrize(("looks", "is_stated"), [(9, False), (10, True)])
def test_from_the_tenth_look_on_the_cost_of_looks_is_stated(looks: int, is_stated: bool):
    text = audits_text([replace(BASELINE, look=looks)])
    assert ("each one makes it a little less independent" in " ".join(text.split())) is is_stated


def test_no_audit_yet_is_stated_and_ascii_terminals_get_ascii():
    assert audits_text([]) == "no audit yet"
    assert audits_text([BASELINE, OVERFIT], terminal=Terminal(unicode=False)).isascii()
