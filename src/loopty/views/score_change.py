"""How much better one score is than another."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from loopty.domain.objective import Direction

SIGMAS = 3.0
"""What lies within so many standard deviations may be noise."""


@dataclass(frozen=True, slots=True)
class Change:
    """Positive is better, whichever way the metric points."""

    amount: float
    percent: float | None
    """Of the older score; None where that tells nothing."""


def change(score: float, over: float, direction: Direction, sigma: float = 0.0) -> Change:
    """`sigma` is the noise of the older score, as far as it is known."""
    # Scores may be as large as floats get; what lies beyond is told as the largest.
    amount = max(-sys.float_info.max, min(direction.sign * (score - over), sys.float_info.max))
    crossed = min(score, over) < 0 < max(score, over)
    return Change(amount, None if crossed else share(amount, over, sigma))


def share(amount: float, of: float, sigma: float = 0.0) -> float | None:
    """In percent; None of a score that may as well be zero, where any percent would be an accident."""
    if abs(of) <= SIGMAS * sigma:
        return None
    percent = 100 * amount / abs(of)
    return percent if math.isfinite(percent) else None
