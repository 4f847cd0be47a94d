"""How often something may start: so often, and so many tokens, in any minute."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

Clock = Callable[[], float]
"""Seconds, from any moment on."""
Sleep = Callable[[float], Awaitable[None]]

_MINUTE = 60.0
_LONGEST_NAP = 1.0
_SHORTEST_NAP = 0.001


@dataclass(slots=True, eq=False)
class Admission:
    """Something that was let through."""

    at: float
    tokens: float
    """As estimated; whoever knows better corrects it."""


class Throttle:
    """Limits of one minute that slides along; those who wait go in the order in which they came."""

    def __init__(
        self,
        per_minute: float | None,
        tokens_per_minute: float | None = None,
        clock: Clock | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        # Less than one in a minute is one in a longer time.
        slow = per_minute is not None and per_minute < 1
        self._window = _MINUTE / per_minute if slow and per_minute else _MINUTE
        self._max_starts = math.inf if per_minute is None else max(math.floor(per_minute), 1)
        self._max_tokens = math.inf if tokens_per_minute is None else tokens_per_minute
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._sleep = sleep
        self._starts: deque[Admission] = deque()
        self._queue = asyncio.Lock()

    async def start(self, tokens: float = 0) -> Admission:
        """Wait until one more may start, of so many tokens as estimated."""
        async with self._queue:
            while (seconds := self._seconds_to_wait(tokens)) > 0:
                # In naps: what ends meanwhile may have taken less than was estimated.
                await self._sleep(min(max(seconds, _SHORTEST_NAP), _LONGEST_NAP))
            self._starts.append(Admission(self._clock(), tokens))
            return self._starts[-1]

    def undo(self, start: Admission) -> None:
        """It was let through and did not start after all."""
        if start in self._starts:
            self._starts.remove(start)

    def _seconds_to_wait(self, tokens: float) -> float:
        """Seconds until there may be room; 0 when there is."""
        now = self._clock()
        while self._starts and self._starts[0].at + self._window <= now:
            self._starts.popleft()
        if not self._starts:
            return 0.0  # one that is larger than the whole limit goes alone: it would wait for ever
        if len(self._starts) < self._max_starts and self._has_room(tokens):
            return 0.0
        return self._starts[0].at + self._window - now

    def _has_room(self, tokens: float) -> bool:
        unlimited = math.isinf(self._max_tokens)  # and the minute not added up
        return unlimited or sum(start.tokens for start in self._starts) + tokens <= self._max_tokens
