"""The objective: metrics in order of priority, or a weighted sum of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from loopty.kit.option import option
from loopty.kit.records import Record

SCORE = "score"
WEIGHTED_SUM = "weighted sum"
_MAX_NAMES = 8
_LARGEST = 1e100
"""Beyond this value, sums and differences overflow to infinity."""


class Direction(StrEnum):
    MAX = "max"
    MIN = "min"

    @property
    def sign(self) -> int:
        return 1 if self is Direction.MAX else -1

    def worse(self, one: float, other: float) -> float:
        """The worse of two values."""
        return min(one, other) if self is Direction.MAX else max(one, other)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of the objective."""

    name: str = option("The metric's name: `score`, a CSV column, or `tasks.ID`.")
    direction: Direction = option("Whether a higher (`max`) or a lower (`min`) value is better.", Direction.MAX)
    tolerance: float = option(
        "Smaller differences count as equal, and the next metric decides. A gain must exceed it.",
        0.0,
        minimum=0,
    )
    weight: float | None = option(
        "With weights on all metrics, their weighted sum is compared.",
        None,
        above=0,
    )


Metrics = Mapping[str, float]
Directions = Mapping[str, Direction]


@dataclass(frozen=True, slots=True)
class Objective:
    """How two results compare. If the task lists no metrics, those that the benchmark reports count."""

    direction: Direction = option(
        "Whether a higher or a lower `score` is better, if no metrics are listed.", Direction.MAX
    )
    metrics: tuple[Metric, ...] = option(
        "Metrics in order of priority. Default: `score`, or else the columns of the CSV.", ()
    )

    def counting_metrics(self, metrics: Metrics, directions: Directions) -> tuple[Metric, ...]:
        """The metrics that count, given what a benchmark reported."""
        if self.metrics:
            return self.metrics
        if SCORE in metrics:
            return (Metric(SCORE, directions.get(SCORE, self.direction)),)
        return tuple(Metric(name, directions.get(name, Direction.MAX)) for name in metrics)


def is_weighted(metrics: Sequence[Metric]) -> bool:
    """Whether the weighted sum of the metrics is compared, instead of one after the other."""
    return bool(metrics) and all(metric.weight is not None for metric in metrics)


def score_metric(metrics: Sequence[Metric]) -> Metric:
    """The metric that lists show and charts draw: the most important, or the weighted sum."""
    return Metric(WEIGHTED_SUM) if is_weighted(metrics) else metrics[0]


def with_weighted_sum(values: Metrics, metrics: Sequence[Metric]) -> Metrics:
    """The values with their weighted sum, where that is compared; higher is better."""
    if not is_weighted(metrics) or any(metric.name not in values for metric in metrics):
        return values
    total = sum((metric.weight or 0.0) * metric.direction.sign * values[metric.name] for metric in metrics)
    return {**values, WEIGHTED_SUM: total}


def metrics_fault(metrics: Metrics, wanted: tuple[Metric, ...]) -> str | None:
    """Why these metrics cannot be compared, or None."""
    if not metrics:
        return "the benchmark reported no metric"
    absent = [metric.name for metric in wanted if metric.name not in metrics]
    if absent:
        reported = ", ".join(list(metrics)[:_MAX_NAMES]) + (", …" if len(metrics) > _MAX_NAMES else "")
        return f"the benchmark did not report {', '.join(absent)} (it reported {reported})"
    for metric in wanted:
        if abs(metrics[metric.name]) > _LARGEST:
            return f"{metric.name} {metrics[metric.name]:g} is too large to compare"
    return None


class Gain(Record):
    """How much better one result is than another; negative is worse, zero is equal."""

    amount: float
    metric: Metric | None
    """The metric that decided; None for a weighted sum."""


def gain(mine: Metrics, theirs: Metrics, metrics: tuple[Metric, ...]) -> Gain:
    """How much better `mine` is than `theirs`."""
    if is_weighted(metrics):
        return Gain(sum((metric.weight or 0.0) * _delta(mine, theirs, metric) for metric in metrics), None)
    for metric in metrics:
        delta = _delta(mine, theirs, metric)
        if abs(delta) > metric.tolerance:
            return Gain(delta, metric)
    return Gain(0.0, metrics[0])


def gains_beyond_tolerance(
    pairs: Sequence[tuple[Metrics, Metrics]], metrics: tuple[Metric, ...], place: int
) -> list[float]:
    """What each pair says of "better in the metric at `place` by more than its tolerance".

    A pair that is worse in a more important metric, beyond its tolerance, counts against; one that is better in it
    says nothing here. A gain of exactly the tolerance is 0.
    """
    metric, amounts = metrics[place], []
    for mine, theirs in pairs:
        before = [(_delta(mine, theirs, one), one.tolerance) for one in metrics[:place]]
        worse = next((delta for delta, tolerance in before if delta < -tolerance), 0.0)
        decided = any(delta > tolerance for delta, tolerance in before)
        own = 0.0 if decided else _delta(mine, theirs, metric) - metric.tolerance
        amounts.append(worse or own)
    return amounts


def _delta(mine: Metrics, theirs: Metrics, metric: Metric) -> float:
    return metric.direction.sign * (mine[metric.name] - theirs[metric.name])
