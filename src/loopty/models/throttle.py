"""Limits the starts, and their tokens, in any minute."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

Clock = Callable[[], float]
"""Seconds since an arbitrary moment."""
Sleep = Callable[[float], Awaitable[None]]

_MINUTE = 60.0
_LONGEST_SLEEP = 1.0
_SHORTEST_SLEEP = 0.001


@dataclass(slots=True, eq=False)
class Admission:
    """A start that the throttle allowed."""

    at: float
    tokens: float
    """An estimate at first; the caller corrects it once the real number is known."""


class Throttle:
    """Limits over a sliding minute; waiting callers start in the order in which they came."""

    def __init__(
        self,
        per_minute: float | None,
        tokens_per_minute: float | None = None,
        clock: Clock | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        # Less than one start in a minute is one start in a longer time.
        slow = per_minute is not None and per_minute < 1
        self._window = _MINUTE / per_minute if slow and per_minute else _MINUTE
        self._max_starts = math.inf if per_minute is None else max(math.floor(per_minute), 1)
        self._max_tokens = math.inf if tokens_per_minute is None else tokens_per_minute
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._sleep = sleep
        self._starts: deque[Admission] = deque()
        self._queue = asyncio.Lock()

    async def start(self, tokens: float = 0) -> Admission:
        """Wait until a start with this estimate of tokens is allowed."""
        async with self._queue:
            while (seconds := self._seconds_to_wait(tokens)) > 0:
                # In short sleeps: a call that ends meanwhile may have used fewer tokens than estimated.
                await self._sleep(min(max(seconds, _SHORTEST_SLEEP), _LONGEST_SLEEP))
            self._starts.append(Admission(self._clock(), tokens))
            return self._starts[-1]

    def undo(self, start: Admission) -> None:
        """Take back a start that did not happen after all."""
        if start in self._starts:
            self._starts.remove(start)

    def _seconds_to_wait(self, tokens: float) -> float:
        """Seconds until there may be room, or 0 when there is room now."""
        now = self._clock()
        while self._starts and self._starts[0].at + self._window <= now:
            self._starts.popleft()
        if not self._starts:
            return 0.0  # a start larger than the whole limit goes alone: else it would wait for ever
        if len(self._starts) < self._max_starts and self._has_room(tokens):
            return 0.0
        return self._starts[0].at + self._window - now

    def _has_room(self, tokens: float) -> bool:
        unlimited = math.isinf(self._max_tokens)  # then skip the sum
        return unlimited or sum(start.tokens for start in self._starts) + tokens <= self._max_tokens
