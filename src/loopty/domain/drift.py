"""Has a machine changed? Compares what it measures of one node now with what it measured of it before.

The last measurements have to agree: all of them lie on one side of the earlier ones, each by more than the noise
explains. So one outlier, and a burst that ends, raise no alarm; a machine that stays slower or faster does, after
as many measurements as have to agree. docs/workers.md has the measured rate of false alarms.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopty.domain.evidence import median, noise_floor
from loopty.kit.records import Record

NEWEST = 4
"""So many measurements have to agree."""
LEAST_BEFORE = 8
"""So many earlier ones say how much the node varies there."""
_TIMES_NOISE = 3.0
_LEAST_SHARE = 0.01
"""A smaller change of the value is none that a person would act on."""
_VALUE = "value"


class Drift(Record):
    """A change of what a machine measures of one node."""

    before: float
    now: float
    noise: float
    """The robust standard deviation of one measurement, before the change."""

    @property
    def share(self) -> float:
        """The change as a share of what it was; infinite where that was 0."""
        return (self.now - self.before) / abs(self.before) if self.before else float("inf")


def drift_of(values: Sequence[float]) -> Drift | None:
    """The drift that the newest of these measurements of one node show; None where the noise explains them."""
    before, newest = values[:-NEWEST], values[-NEWEST:]
    if len(before) < LEAST_BEFORE:
        return None
    middle = median(before)
    noise = _noise(before)
    # Of all, too: a few measurements may be alike by luck, and one step changes the estimate little.
    least = max(_TIMES_NOISE * max(noise, _noise(values)), _LEAST_SHARE * abs(middle))
    changes = [value - middle for value in newest]
    if min(changes) > least or max(changes) < -least:
        return Drift(middle, median(newest), noise)
    return None


def _noise(values: Sequence[float]) -> float:
    return noise_floor([{_VALUE: value} for value in values])[_VALUE]
