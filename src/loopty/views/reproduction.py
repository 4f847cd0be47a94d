"""Whether a node that was measured again gave what was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from loopty.domain.objective import Metric
from loopty.domain.outcome import Outcome
from loopty.record.node_record import Result
from loopty.views.score_change import SIGMAS


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """One metric as it was recorded and as it is now, each a value per measurement."""

    name: str
    then: tuple[float, ...]
    now: tuple[float, ...]
    is_same: bool
    counts: bool
    """Whether the objective names it: the others are told, and decide nothing."""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What came of measuring again."""

    failure: str
    """How the new trial ended where it gave no result."""
    metrics: tuple[MetricComparison, ...]
    is_same: bool


def reproduction(
    then: Result, now: Sequence[Outcome], counting: Sequence[Metric], floor: Mapping[str, float] | None = None
) -> Reproduction:
    """The record beside the new outcomes; the same when every metric that counts is.

    `floor` is the noise that was known when it was recorded, a standard deviation by metric.
    """
    last = now[-1]
    ended = "" if last.is_finished else f"{last.ending}: {last.reason}"
    samples = then.samples or (then.outcome.metrics,)
    tolerances = {metric.name: metric.tolerance for metric in counting}
    metrics = []
    for name in dict.fromkeys((*then.outcome.metrics, *last.metrics)):
        was = tuple(sample[name] for sample in samples if name in sample)
        found = tuple(outcome.metrics[name] for outcome in now if name in outcome.metrics)
        same = _is_same(was, found, max(tolerances.get(name, 0.0), SIGMAS * (floor or {}).get(name, 0.0)))
        metrics.append(MetricComparison(name, was, found, same, name in tolerances))
    counted = [metric.is_same for metric in metrics if metric.counts]
    alike = last.ending is then.outcome.ending and (not last.is_finished or (bool(counted) and all(counted)))
    return Reproduction(ended, tuple(metrics), alike)


def _is_same(then: tuple[float, ...], now: tuple[float, ...], leeway: float) -> bool:
    """Whether the medians are no further apart than that, or one of them lies where the other's samples do."""
    if not then or not now:
        return False
    was, found = median(then), median(now)
    return abs(found - was) <= leeway or _is_within_spread(found, then) or _is_within_spread(was, now)


def _is_within_spread(value: float, samples: tuple[float, ...]) -> bool:
    """Whether the value lies within the samples' spread, widened by its own width on both sides.

    A spread of n samples misses a further one of the same kind in 2 of n + 1 cases: too often for a few samples.
    """
    low, high = min(samples), max(samples)
    return len(samples) > 1 and 2 * low - high <= value <= 2 * high - low
