"""How much better one score is than another."""

from __future__ import annotations

from dataclasses import dataclass

from loopty.core.objective import Direction


@dataclass(frozen=True, slots=True)
class Change:
    """Positive is better, whichever way the metric points."""

    amount: float
    percent: float | None
    """Of the older score; None where that is zero."""


def change(score: float, over: float, direction: Direction) -> Change:
    amount = direction.sign * (score - over)
    return Change(amount, 100 * amount / abs(over) if over else None)
