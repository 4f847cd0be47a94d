"""How much better one score is than another."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from loopty.domain.objective import Direction

SIGMAS = 3.0
"""What lies within so many standard deviations may be noise."""


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """Positive is better, whichever way the metric points."""

    amount: float
    percent: float | None
    """Of the older score; None where that tells nothing."""


def score_change(score: float, older: float, direction: Direction, sigma: float = 0.0) -> ScoreChange:
    """`sigma` is the noise of the older score, as far as it is known."""
    # Scores may be as large as floats get; what lies beyond is told as the largest.
    amount = max(-sys.float_info.max, min(direction.sign * (score - older), sys.float_info.max))
    crossed = min(score, older) < 0 < max(score, older)
    return ScoreChange(amount, None if crossed else percent_of(amount, older, sigma))


def percent_of(amount: float, whole: float, sigma: float = 0.0) -> float | None:
    """In percent; None of a score that may as well be zero, where any percent would be an accident."""
    if abs(whole) <= SIGMAS * sigma:
        return None
    percent = 100 * amount / abs(whole)
    return percent if math.isfinite(percent) else None
