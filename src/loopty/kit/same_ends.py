"""How far two texts are the same from their beginning, and how far from their end."""

from __future__ import annotations

from collections.abc import Sequence


def same_ends(old: Sequence[object], new: Sequence[object]) -> tuple[int, int]:
    """How many lines are the same at the beginning, and how many of the others at the end."""
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return start, end
