"""How much better one score is than another."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from loopty.core.objective import Direction


@dataclass(frozen=True, slots=True)
class Change:
    """Positive is better, whichever way the metric points."""

    amount: float
    percent: float | None
    """Of the older score; None where that is zero or next to it."""


def change(score: float, over: float, direction: Direction) -> Change:
    # Scores may be as large as floats get; what lies beyond is told as the largest.
    amount = max(-sys.float_info.max, min(direction.sign * (score - over), sys.float_info.max))
    percent = 100 * amount / abs(over) if over else math.inf
    return Change(amount, percent if math.isfinite(percent) else None)
