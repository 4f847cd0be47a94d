"""How the objective compares two results."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopty.domain.objective import Direction, Gain, Metric, Objective, gain, metrics_fault

FAST = Metric("latency", Direction.MIN)
GOOD = Metric("accuracy", Direction.MAX)


def test_the_first_metric_that_differs_decides() -> None:
    found = gain({"latency": 1, "accuracy": 0.9}, {"latency": 1, "accuracy": 0.8}, (FAST, GOOD))
    delta, decided = found.amount, found.metric
    assert delta == pytest.approx(0.1)
    assert decided is GOOD
    found = gain({"latency": 2, "accuracy": 0.9}, {"latency": 1, "accuracy": 0.1}, (FAST, GOOD))
    delta, decided = found.amount, found.metric
    assert (delta, decided) == (-1, FAST)


def test_a_difference_of_exactly_the_tolerance_counts_as_equal() -> None:
    metrics = (Metric("latency", Direction.MIN, tolerance=0.5), GOOD)
    assert gain({"latency": 1.5, "accuracy": 2}, {"latency": 1, "accuracy": 1}, metrics) == Gain(1, GOOD)
    assert gain({"latency": 1.75, "accuracy": 2}, {"latency": 1, "accuracy": 1}, metrics).amount < 0


def test_with_weights_the_sum_is_compared_in_the_direction_of_each_metric() -> None:
    metrics = (Metric("latency", Direction.MIN, weight=1), Metric("accuracy", weight=10))
    assert gain({"latency": 2, "accuracy": 0.5}, {"latency": 1, "accuracy": 0.25}, metrics).amount == 1.5


def test_without_named_metrics_the_score_counts_or_else_the_columns_in_order() -> None:
    objective = Objective(Direction.MIN)
    assert objective.counting_metrics({"b": 1, "score": 2}, {}) == (Metric("score", Direction.MIN),)
    assert objective.counting_metrics({"b": 1, "a": 2}, {"b": Direction.MIN}) == (
        Metric("b", Direction.MIN),
        Metric("a", Direction.MAX),
    )


def test_missing_metrics_are_named_in_one_short_line() -> None:
    objective = Objective(metrics=(FAST, GOOD))
    assert metrics_fault({"latency": 1, "accuracy": 1}, objective.metrics) is None
    assert metrics_fault({}, objective.metrics) == "the benchmark reported no metric"
    reason = metrics_fault({f"tasks.{number}": 1.0 for number in range(10_000)}, objective.metrics)
    assert reason
    assert reason.startswith("the benchmark did not report latency, accuracy (it reported tasks.0, ")
    assert len(reason) < 300


_values = st.fixed_dictionaries({name: st.floats(-1e6, 1e6) for name in ("latency", "accuracy")})


@given(_values, _values, st.booleans())
def test_swapping_two_results_reverses_the_sign_of_the_gain(
    one: dict[str, float], other: dict[str, float], weighted: bool
) -> None:
    weight = 2.0 if weighted else None
    metrics = (Metric("latency", Direction.MIN, 0.0, weight), Metric("accuracy", Direction.MAX, 0.0, weight))
    assert gain(one, other, metrics).amount == -gain(other, one, metrics).amount
