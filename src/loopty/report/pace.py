"""How fast trials end, over the last few of them."""

from __future__ import annotations

from collections import deque

_MEMORY = 64


class Pace:
    """Counts from `began` until it has seen enough trials to forget the first ones."""

    def __init__(self, began: float) -> None:
        self._marks: deque[float] = deque([began], maxlen=_MEMORY)

    def ended(self, at: float) -> None:
        self._marks.append(at)

    def per_second(self, now: float) -> float | None:
        """None until a trial has ended. It falls while nothing ends."""
        since, ended = self._marks[0], len(self._marks) - 1
        return ended / (now - since) if ended and now > since else None
