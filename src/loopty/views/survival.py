"""How much of a gain survives on the held-out split."""

from __future__ import annotations

import math
from collections.abc import Mapping

from loopty.domain.objective import Direction, Metric, Metrics, gain
from loopty.kit.records import Record


class ComparisonScale(Record):
    """The one number that compares a node with its baseline: a metric, or the weighted sum of several."""

    metrics: tuple[Metric, ...]
    weighted: bool = False

    @property
    def name(self) -> str:
        """The metric's name; empty for a weighted sum."""
        return "" if self.weighted else self.metrics[0].name

    @property
    def direction(self) -> Direction:
        return Direction.MAX if self.weighted else self.metrics[0].direction

    def value(self, metrics: Metrics) -> float | None:
        """The value on this scale; None if a metric is missing."""
        if any(metric.name not in metrics for metric in self.metrics):
            return None
        if not self.weighted:
            return metrics[self.metrics[0].name]
        return sum(_weight(metric) * metrics[metric.name] for metric in self.metrics)

    def noise(self, floor: Mapping[str, float]) -> float:
        """The noise of one measurement on this scale; 0 if unknown."""
        if not self.weighted:
            return floor.get(self.metrics[0].name, 0.0)
        return math.hypot(*(_weight(metric) * floor.get(metric.name, 0.0) for metric in self.metrics))


def comparison_scale(metrics: tuple[Metric, ...], values: Metrics, baseline: Metrics) -> ComparisonScale:
    """The scale that decides between a node and its baseline; the first metric if none does."""
    if all(metric.weight is not None for metric in metrics):
        return ComparisonScale(metrics, weighted=True)
    if all(metric.name in values and metric.name in baseline for metric in metrics):
        deciding = gain(values, baseline, metrics).metric
        return ComparisonScale((deciding or metrics[0],))
    return ComparisonScale(metrics[:1])


def _weight(metric: Metric) -> float:
    return metric.direction.sign * (metric.weight or 0.0)


class Survival(Record):
    """A node and its baseline, in the search and on the held-out split. A missing value is None."""

    scale: ComparisonScale
    search: float | None
    search_baseline: float | None
    held_out: float | None
    held_out_baseline: float | None
    noise: float
    """Of one measurement; 0 if unknown."""

    @property
    def search_gain(self) -> float | None:
        return self._gain(self.search, self.search_baseline)

    @property
    def held_out_gain(self) -> float | None:
        return self._gain(self.held_out, self.held_out_baseline)

    @property
    def share(self) -> float | None:
        """The share of the search's gain that the held-out split shows, too; 0 if it shows no gain.

        None without a gain in the search. Gains are compared in the metric's unit or relative to the baselines,
        whichever gives the larger share: splits differ in size.
        """
        searched, held_out = self.search_gain, self.held_out_gain
        if searched is None or held_out is None or searched <= 0:
            return None
        share = held_out / searched
        if self.search_baseline and self.held_out_baseline:
            share = max(share, share * abs(self.search_baseline / self.held_out_baseline))
        return max(share, 0.0)

    def _gain(self, value: float | None, baseline: float | None) -> float | None:
        """Positive is better."""
        if value is None or baseline is None:
            return None
        return self.scale.direction.sign * (value - baseline)
