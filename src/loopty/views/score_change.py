"""How much better one score is than another."""

from __future__ import annotations

import math
import sys

from loopty.domain.objective import Direction
from loopty.kit.records import Record

SIGMAS = 3.0
"""A difference within this many standard deviations may be noise."""


class ScoreChange(Record):
    """Positive is better, whether the metric is maximised or minimised."""

    amount: float
    percent: float | None
    """Of the older score; None if a percentage would be meaningless."""
    low: float | None = None
    high: float | None = None
    """The interval of the amount, where pairs were measured for it."""
    pairs: int = 0
    is_confirmed: bool | None = None
    """Whether fresh pairs confirm the change; None where nothing varies, so that there is nothing to confirm."""

    @property
    def is_certain(self) -> bool:
        """Whether the interval excludes that there is no gain."""
        return self.low is not None and self.low > 0


def score_change(score: float, older: float, direction: Direction, sigma: float = 0.0) -> ScoreChange:
    """The change from the older score; `sigma` is the noise of the older score, 0 if unknown."""
    # Scores may be as large as floats get; a larger difference is reported as the largest float.
    amount = max(-sys.float_info.max, min(direction.sign * (score - older), sys.float_info.max))
    changes_sign = min(score, older) < 0 < max(score, older)
    return ScoreChange(amount, None if changes_sign else percent_of(amount, older, sigma))


def is_far_from_zero(score: float, sigma: float) -> bool:
    """Whether noise alone could not make the score zero, so that shares of it mean something."""
    return abs(score) > SIGMAS * sigma


def percent_of(amount: float, whole: float, sigma: float = 0.0) -> float | None:
    """The amount in percent of the whole; None if noise alone could make the whole zero, or beyond a float."""
    if not is_far_from_zero(whole, sigma):
        return None
    percent = 100 * amount / abs(whole)
    return percent if math.isfinite(percent) else None
