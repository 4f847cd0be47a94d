"""The y axis of a chart: a range that a few outliers cannot spoil, and round numbers along it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from loopty.kit.records import Record

_FEWEST_TO_CLIP = 12
_LARGEST = 1e300  # so that the span of the scale stays finite
_FENCE = 3.0
"""An outlier is more than this many interquartile ranges outside the middle half (Tukey's outer fence)."""


class AxisScale(Record):
    """The range of the axis."""

    low: float
    high: float

    def row(self, value: float, rows: int) -> int:
        """The row of this value, 0 at the top; a value outside the range is on the edge."""
        share = (self.high - value) / (self.high - self.low)
        return round(min(max(share, 0.0), 1.0) * (rows - 1))

    def ticks(self, limit: int) -> list[float]:
        """Round numbers within the range, at most about `limit` of them."""
        step = round_step((self.high - self.low) / max(limit, 1))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def robust_scale(values: Sequence[float], best: float) -> AxisScale:
    """The range of the values, without outliers if these are few; the best is always inside."""
    ordered = sorted(max(-_LARGEST, min(value, _LARGEST)) for value in values)
    low, high = ordered[0], ordered[-1]
    if len(ordered) >= _FEWEST_TO_CLIP:
        lower, upper = ordered[len(ordered) // 4], ordered[len(ordered) * 3 // 4]
        fence = _FENCE * (upper - lower)
        near = [value for value in ordered if lower - fence <= value <= upper + fence]
        bottom, top = min(near[0], best), max(near[-1], best)
        far = sum(not bottom <= value <= top for value in ordered)
        if far <= len(ordered) // 10 and 0 < 2 * (top - bottom) < high - low:
            low, high = bottom, top
    if low == high:
        room = abs(low) * 0.05 or 1.0
        return AxisScale(low - room, high + room)
    return AxisScale(low, high)


def round_step(minimum: float) -> float:
    """The smallest step of 1, 2, 5, 10, … that is at least the minimum."""
    power = 10.0 ** math.floor(math.log10(minimum))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= minimum * (1 - 1e-9))


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """The ticks with as many decimals as distinguish them."""
    if len(ticks) < 2:
        return [f"{tick:.6g}" for tick in ticks]
    decimals = max(0, -math.floor(math.log10(ticks[1] - ticks[0]) + 1e-9))
    if decimals > 6 or max(map(abs, ticks)) >= 1e9:
        return [f"{tick:.4g}" for tick in ticks]
    return [f"{tick:.{decimals}f}" for tick in ticks]
