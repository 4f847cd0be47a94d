"""The one layer that retries requests, limits their starts in any minute, and knows when a model is out.

A request with a transient fault is retried after a random pause from a range that grows, so that many callers do
not come back at once. When several requests in a row fail, or one request has used all of its retries, the model
counts as out: all callers wait, and one of them at a time probes with its own request whether the model is back.
So a long outage costs few requests, however many callers there are.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import Struct

from loopty.domain.model import ModelFault, Outage

T = TypeVar("T")

FAILURES_UNTIL_OUT = 5
_FIRST_PAUSE = 1.0
_FIRST_COOL_DOWN = 5.0
_LONGEST = 60.0
"""The longest pause, and the longest time between two probes of a model that is out."""
_LONGEST_SLEEP = 1.0
_SHORTEST_SLEEP = 0.001


class Retry:
    """Retries requests to one model; all of its callers share it."""

    def __init__(
        self, model: str, retries: int, outage_seconds: float, rng: random.Random, clock: Clock, sleep: Sleep
    ) -> None:
        self._model = model
        self._retries = retries
        self._outage_seconds = outage_seconds
        self._rng = rng
        self._clock = clock
        self._sleep = sleep
        self._callers = 0
        self._answers = 0
        self._failures = 0
        """Failures in a row, of all callers."""
        self._first_failure_at = 0.0
        """When the first of these failures was."""
        self._last_failure = ""
        self._allowed_at = 0.0
        """When the server allows the next request."""
        self._probe_at = 0.0
        """When a caller may probe whether the model is back."""
        self._cool_down = 0.0
        """The time between two probes; 0 while the model is not out."""
        self._probing = False

    async def ask(self, request: Callable[[], Awaitable[T]]) -> T:
        """Return the answer, after retries if need be. Raises Outage, and the request's other errors."""
        if not self._callers and not self._cool_down:
            self._failures = 0  # time without requests is no outage
        self._callers += 1
        try:
            return await self._ask_until_answered(request)
        finally:
            self._callers -= 1

    async def _ask_until_answered(self, request: Callable[[], Awaitable[T]]) -> T:
        failures, answers_before = 0, self._answers
        while True:
            probing = await self._wait_for_turn()
            try:
                answer = await request()
            except ModelFault as fault:
                failures += not probing
                others_answered = self._answers > answers_before
                pause = self._pause_after(fault, failures, probing, others_answered)
            else:
                self._answers += 1
                self._failures, self._cool_down, self._probe_at = 0, 0.0, 0.0
                return answer
            finally:
                self._probing = self._probing and not probing
            await self._sleep(pause)

    async def _wait_for_turn(self) -> bool:
        """Wait until the model may be asked; returns whether this request probes if the model is back."""
        while True:
            now, next_at = self._clock(), max(self._allowed_at, self._probe_at)
            if now >= next_at and not self._cool_down:
                return False
            if now >= next_at and not self._probing:
                self._probing = True
                return True
            too_late = self._failures and max(now, next_at) > self._deadline
            # The wait alone may be too long: answers to others may have reset the failures since the server asked.
            if too_late or next_at - now > self._outage_seconds:
                raise self._outage(now)
            await self._sleep(
                _LONGEST_SLEEP if now >= next_at else min(_LONGEST_SLEEP, max(next_at - now, _SHORTEST_SLEEP))
            )

    def _pause_after(self, fault: ModelFault, failures: int, probing: bool, others_answered: bool) -> float:
        """Record a fault; returns the pause before the next try. Raises Outage when waiting does not help."""
        if not fault.transient:
            raise Outage(f"{self._model}: {fault}") from fault
        now = self._clock()
        self._first_failure_at = self._first_failure_at if self._failures else now
        self._failures += 1
        self._last_failure = str(fault)
        if fault.retry_after_seconds:
            self._allowed_at = max(self._allowed_at, now + fault.retry_after_seconds)
        time_is_up = now >= self._deadline or self._allowed_at > self._deadline
        used_up = failures > self._retries
        out = time_is_up or probing or used_up or self._failures >= FAILURES_UNTIL_OUT
        if used_up and others_answered and not time_is_up:
            raise Outage(
                f"{self._model} answers other requests, but failed one {failures} times, the last with: {fault}"
            ) from fault
        if out:
            self._extend_cool_down(now, probing)
        if time_is_up:
            raise self._outage(now) from fault
        if out:
            return 0.0
        pause = self._rng.uniform(0, min(_LONGEST, _FIRST_PAUSE * 2 ** (failures - 1)))
        return min(pause, self._deadline - now)

    def _extend_cool_down(self, now: float, probing: bool) -> None:
        """Mark the model as out: longer after each failed probe, with a last probe at the deadline."""
        if self._cool_down and not probing:
            return  # this request was sent before the model went out
        self._cool_down = min(2 * self._cool_down or _FIRST_COOL_DOWN, _LONGEST)
        self._probe_at = now + self._cool_down
        if now < self._deadline:
            self._probe_at = min(self._probe_at, self._deadline)

    @property
    def _deadline(self) -> float:
        return self._first_failure_at + self._outage_seconds

    def _outage(self, now: float) -> Outage:
        count = f"{self._failures} requests in a row failed" if self._failures > 1 else "a request failed"
        wait = self._allowed_at - now
        request_to_wait = f"; the server asks to wait {wait:.0f} s" if self._allowed_at > self._deadline else ""
        return Outage(
            f"{self._model} gave no reply: {count} within {now - self._first_failure_at:.0f} s, "
            f"the last with: {self._last_failure}{request_to_wait}"
        )


Clock = Callable[[], float]
"""Seconds since an arbitrary moment."""
Sleep = Callable[[float], Awaitable[None]]

_MINUTE = 60.0


class Admission(Struct, eq=False):
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
