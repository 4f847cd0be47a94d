"""Comparisons of arms: curves, paired differences and their text."""

from __future__ import annotations

import pytest

from loopty.domain.trial import Verdict
from loopty.show.arms import GainCurve, arm_rows, arms_text, curve_of, paired_difference
from loopty.show.terminal import width

from ..record.test_operator_credit import Story


def test_the_area_is_the_mean_of_the_best_so_far_over_the_budget():
    curve = GainCurve((1.0, 2.0, 3.0), (0.0, 4.0, 4.0))
    assert curve.area(4.0) == pytest.approx(2.0)
    assert curve.area(2.0) == pytest.approx(0.0), "what comes after the budget does not count"
    assert curve.final == 4.0
    assert GainCurve((), ()).final == 0.0


def test_a_curve_counts_attempts_tokens_or_money():
    story = Story()
    story.call("a", tokens=100)
    story.add("1.1", calls=("a",))
    story.judge("1.1", 0.5)
    story.call("b", tokens=50)
    story.add("1.2", calls=("b",))
    story.judge("1.2", 3.0, Verdict.KEPT)
    assert curve_of(story.history, 1, "attempts") == GainCurve((1.0, 2.0), (0.0, 2.0))
    assert curve_of(story.history, 1, "tokens").spent == (100.0, 150.0)
    assert curve_of(story.history, 1, "money").spent == pytest.approx((0.1, 0.15))


def test_an_interval_needs_pairs_and_excludes_zero_when_all_agree():
    assert paired_difference([[0.1, 0.2]]).low is None
    sure = paired_difference([[0.1, 0.2, 0.3], [0.2, 0.1, 0.4]])
    assert sure.is_sure
    assert sure.low is not None
    assert sure.low > 0
    assert not paired_difference([[-1.0, 1.0, -1.0, 1.0, 0.1]]).is_sure
    assert paired_difference([]).pairs == 0


def test_tasks_weigh_the_same_whatever_their_number_of_seeds():
    assert paired_difference([[1.0] * 9, [0.0]]).mean == pytest.approx(0.5)


def test_rows_are_pooled_and_by_task_in_shares_of_the_largest_gain():
    curves = {
        (arm, task, seed): GainCurve((1.0, 2.0), (size * gain, size * gain))
        for arm, gain in (("a", 1.0), ("b", 2.0))
        for task, size in (("small", 1.0), ("large", 100.0))
        for seed in range(3)
    }
    rows = arm_rows(curves, 2.0)
    assert [(row.arm, row.task) for row in rows[:2]] == [("a", ""), ("b", "")]
    assert len(rows) == 6
    assert rows[1].final == 1.0
    assert rows[1].final_over_first.mean == pytest.approx(0.5)
    assert rows[1].final_over_first.is_sure
    text = arms_text("12 searches", rows)
    assert max(map(width, text.splitlines())) <= 80
    assert "+0.500 [+0.50, +0.50]*" in text
