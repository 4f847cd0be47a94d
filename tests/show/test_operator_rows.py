"""Rows of operators, and their text."""

from __future__ import annotations

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool, Verdict
from loopty.record.calls import CallReserved, CallSettled
from loopty.show.operators import diversity, operator_report, operators_text
from loopty.show.terminal import width

from ..record.test_operator_credit import Story


@pytest.fixture
def story() -> Story:
    found = Story()
    for number in range(1, 9):
        model = "provider:a-model-with-a-long-name" if number % 2 else "local:small"
        found.call(f"c{number}", model)
        found.add(f"1.{number}", calls=(f"c{number}",))
        found.judge(
            f"1.{number}",
            None if number == 3 else 1.0 + number,
            Verdict.KEPT if number == 8 else Verdict.DISCARDED,
        )
    found.add("1.9", "mutate:number")
    found.judge("1.9", 0.5)
    return found


def test_rows_have_credit_cost_success_and_gains_also_over_time(story):
    report = operator_report(story.history, story.history.runs[1])
    small, large, mutate = report.rows
    assert (small.operator, small.model, small.asked, small.nodes) == ("diff", "local:small", 4, 4)
    assert (small.kept, small.failed, large.failed) == (1, 0, 1)
    assert small.reward == 4.0, "each was the best when it was judged"
    assert small.credit == 1.0
    assert (small.tokens, small.money_usd) == (400.0, pytest.approx(0.4))
    assert small.best_gain == 8.0
    assert mutate.mean_gain == -0.5
    assert large.by_period == (0.5, 1.0, 1.0, None), "the third node failed"
    assert [row.operator for row in report.kinds] == ["mutate:number"]


def test_diversity_is_the_entropy_of_changes(story):
    nodes = [story.history[node] for node in story.history.ids if node.parent]
    assert diversity(nodes).bits > 1
    assert diversity(nodes[:1]).bits == 0
    assert diversity([]).most_bits == 0
    alike = diversity([nodes[0]] * 40)
    assert alike.is_low


def test_the_forms_of_answers_are_told_for_each_model(story):
    story.record(
        CallReserved(1, "c", "evolver", 1, 0.0, "me", "m", "diff", NodeId("1"), Pool.ATTEMPT, form="block"),
        CallSettled(1, "c", 1, 0.0),
    )
    story.add("1.10", calls=("c",))
    text = operators_text(operator_report(story.history, story.history.runs[1]))
    assert "  replies   m: usable in the form block 1 of 1" in text
    assert "++" not in text


@pytest.mark.parametrize("columns", [80, 60, 120])
def test_the_table_fits(story, columns):
    text = operators_text(operator_report(story.history, story.history.runs[1]), columns)
    assert max(map(width, text.splitlines())) <= columns
    assert "diversity" in text
    assert "mutate:number" in text


def test_a_run_without_proposals_says_what_to_do():
    empty = Story()
    assert "loopty run" in operators_text(operator_report(empty.history, empty.history.runs[1]))
