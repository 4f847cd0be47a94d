"""Whether measuring a node again reproduced its recorded result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from loopty.domain.objective import WEIGHTED_SUM, Metric
from loopty.domain.trial import Integrity, Outcome
from loopty.kit.records import Record
from loopty.record.node_record import Result
from loopty.show.comparisons import SIGMAS


class MetricComparison(Record):
    """One metric as recorded and as measured now, one value per measurement."""

    name: str
    then: tuple[float, ...]
    now: tuple[float, ...]
    is_same: bool
    counts: bool
    """Whether the objective names it; the others are shown, but decide nothing."""


class Reproduction(Record):
    """The comparison of a repeated measurement with the record."""

    failure: str
    """How the new trial ended if it gave no result; otherwise empty."""
    metrics: tuple[MetricComparison, ...]
    lost_integrity: bool
    """Whether the record claims strong integrity and the measurement now does not: the claim fails here."""
    is_same: bool


def reproduction(
    then: Result, now: Sequence[Outcome], counting: Sequence[Metric], floor: Mapping[str, float] | None = None
) -> Reproduction:
    """Compare the record with the new outcomes; it is the same if each counting metric and the integrity are.

    `floor` is the noise known when it was recorded: a standard deviation for each metric.
    """
    last = now[-1]
    failure = "" if last.is_finished else f"{last.ending}: {last.reason}"
    samples = then.samples or (then.outcome.metrics,)
    tolerances = {metric.name: metric.tolerance for metric in counting}
    metrics = []
    for name in dict.fromkeys((*then.outcome.metrics, *last.metrics)):
        if name == WEIGHTED_SUM:  # it follows from the others
            continue
        # Samples hold what decides; the rest is known of the record as a whole.
        recorded = tuple(sample[name] for sample in samples if name in sample)
        if not recorded and name in then.outcome.metrics:
            recorded = (then.outcome.metrics[name],)
        measured = tuple(outcome.metrics[name] for outcome in now if name in outcome.metrics)
        tolerance = max(tolerances.get(name, 0.0), SIGMAS * (floor or {}).get(name, 0.0))
        is_same = _is_same(recorded, measured, tolerance)
        metrics.append(MetricComparison(name, recorded, measured, is_same, name in tolerances))
    counting_same = [metric.is_same for metric in metrics if metric.counts]
    same_metrics = not last.is_finished or (bool(counting_same) and all(counting_same))
    lost = last.is_finished and then.outcome.integrity is Integrity.STRONG is not last.integrity
    is_same = last.ending is then.outcome.ending and same_metrics and not lost
    return Reproduction(failure, tuple(metrics), lost, is_same)


def _is_same(then: tuple[float, ...], now: tuple[float, ...], tolerance: float) -> bool:
    """Say whether the medians differ by at most the tolerance, or one lies within the other's spread."""
    if not then or not now:
        return False
    before, after = median(then), median(now)
    return abs(after - before) <= tolerance or _is_within_spread(after, then) or _is_within_spread(before, now)


def _is_within_spread(value: float, samples: tuple[float, ...]) -> bool:
    """Say whether the value lies within the samples' spread, widened by its own width on both sides."""
    # The spread of n samples misses a further one of the same kind in 2 of n + 1 cases: too often for few.
    low, high = min(samples), max(samples)
    return len(samples) > 1 and 2 * low - high <= value <= 2 * high - low
