"""Learning curves: the metrics that a trial reports while it runs. They are kept beside the fold, not in it."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence

from loopty.domain.objective import Direction, Directions, Metric
from loopty.kit.records import Record


class Row(Record):
    """One complete row of the metrics stream."""

    step: float
    metrics: Mapping[str, float]


class Curve(Record):
    """The most important metric of one trial over its steps, oldest first."""

    points: tuple[tuple[float, float], ...]
    direction: Direction
    metric: str = ""

    def at(self, step: float) -> float | None:
        """The value at this step; None when the trial never reached it."""
        if not self.points or self.points[-1][0] < step:
            return None
        passed = bisect.bisect_right(self.points, step, key=lambda point: point[0])
        return self.points[passed - 1][1] if passed else None

    def is_worse(self, value: float, than: float) -> bool:
        return self.direction.sign * (value - than) < 0


def metric_of_curve(rows: Sequence[Row], directions: Directions, counting: Metric) -> Metric:
    """The metric by which a trial is followed: the one that counts, or else the leftmost that it reports."""
    names = rows[-1].metrics
    if counting.name in names:
        return counting
    name = next(iter(names))
    return Metric(name, directions.get(name, counting.direction))


def metric_curve(rows: Sequence[Row], metric: str, direction: Direction) -> Curve:
    """The curve of one metric; rows without it are skipped."""
    return Curve(
        tuple((row.step, row.metrics[metric]) for row in rows if metric in row.metrics), direction, metric
    )
