"""How much of a gain survives on the held-out split."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from loopty.domain.objective import Direction, Metric, Metrics, gain


@dataclass(frozen=True, slots=True)
class ComparisonScale:
    """The one number by which a node is compared with its baseline: a metric, or the weighted sum of several."""

    metrics: tuple[Metric, ...]
    weighted: bool = False

    @property
    def name(self) -> str:
        """Of the metric; empty for a weighted sum."""
        return "" if self.weighted else self.metrics[0].name

    @property
    def direction(self) -> Direction:
        return Direction.MAX if self.weighted else self.metrics[0].direction

    def value(self, metrics: Metrics) -> float | None:
        if any(metric.name not in metrics for metric in self.metrics):
            return None
        if not self.weighted:
            return metrics[self.metrics[0].name]
        return sum(_weight(metric) * metrics[metric.name] for metric in self.metrics)

    def noise(self, floor: Mapping[str, float]) -> float:
        """Of one measurement, 0 where it is not known."""
        if not self.weighted:
            return floor.get(self.metrics[0].name, 0.0)
        return math.hypot(*(_weight(metric) * floor.get(metric.name, 0.0) for metric in self.metrics))


def comparison_scale(metrics: tuple[Metric, ...], mine: Metrics, theirs: Metrics) -> ComparisonScale:
    """What decides between a node and its baseline; the first metric where nothing does."""
    if all(metric.weight is not None for metric in metrics):
        return ComparisonScale(metrics, weighted=True)
    if all(metric.name in mine and metric.name in theirs for metric in metrics):
        decided = gain(mine, theirs, metrics).metric
        return ComparisonScale((decided or metrics[0],))
    return ComparisonScale(metrics[:1])


def _weight(metric: Metric) -> float:
    return metric.direction.sign * (metric.weight or 0.0)


@dataclass(frozen=True, slots=True)
class Survival:
    """A node and its baseline, for the search and on the held-out split. Missing is missing."""

    scale: ComparisonScale
    search: float | None
    search_baseline: float | None
    held_out: float | None
    held_out_baseline: float | None
    noise: float
    """Of one measurement, 0 where it is not known."""

    @property
    def search_gain(self) -> float | None:
        return self._gain(self.search, self.search_baseline)

    @property
    def held_out_gain(self) -> float | None:
        return self._gain(self.held_out, self.held_out_baseline)

    @property
    def share(self) -> float | None:
        """The share of the search's gain that there is on the held-out split, too; 0 where there is none.

        In the unit of the metric or relative to the baselines, whichever is kinder: splits differ in size.
        """
        there, here = self.search_gain, self.held_out_gain
        if there is None or here is None or there <= 0:
            return None
        share = here / there
        if self.search_baseline and self.held_out_baseline:
            share = max(share, share * abs(self.search_baseline / self.held_out_baseline))
        return max(share, 0.0)

    def _gain(self, value: float | None, baseline: float | None) -> float | None:
        """Positive is better."""
        if value is None or baseline is None:
            return None
        return self.scale.direction.sign * (value - baseline)
