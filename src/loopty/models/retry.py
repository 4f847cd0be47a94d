"""The one layer that repeats requests, and knows when a model is out.

A request that failed for no fault of its own is repeated after a pause that grows and is drawn at random, so that
many callers do not come back at once. When requests fail in a row, or one has had all of its repeats, the model
counts as out: all callers wait, and one of them at a time tries with its own request whether the model is back. So
a long outage costs few requests, however many callers there are.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from loopty.domain.model import ModelFault, Outage
from loopty.models.throttle import Clock, Sleep

T = TypeVar("T")

FAILURES_UNTIL_OUT = 5
_FIRST_PAUSE = 1.0
_FIRST_COOL_DOWN = 5.0
_LONGEST = 60.0
"""Of a pause, and of the time between two tries of a model that is out."""
_NAP = 1.0
_SHORTEST_NAP = 0.001


class Retry:
    """Shared by everyone who asks the same model."""

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
        """In a row, of all callers."""
        self._since = 0.0
        """When the first of them was."""
        self._last = ""
        self._asked_until = 0.0
        """When the model may be asked again, as it said itself."""
        self._out_until = 0.0
        """When somebody may try whether it is back."""
        self._cool_down = 0.0
        """The time between two tries; 0 while it is not out."""
        self._trying = False

    async def ask(self, request: Callable[[], Awaitable[T]]) -> T:
        """What the request gives, made again until it does. Raises Outage, and all that the request raises."""
        if not self._callers and not self._cool_down:
            self._failures = 0  # time in which nobody asked is no outage
        self._callers += 1
        try:
            return await self._ask_until_answered(request)
        finally:
            self._callers -= 1

    async def _ask_until_answered(self, request: Callable[[], Awaitable[T]]) -> T:
        failures, answers_before = 0, self._answers
        while True:
            trying = await self._wait_for_turn()
            try:
                answer = await request()
            except ModelFault as fault:
                failures += not trying
                others_answered = self._answers > answers_before
                pause = self._pause_after(fault, failures, trying, others_answered)
            else:
                self._answers += 1
                self._failures, self._cool_down, self._out_until = 0, 0.0, 0.0
                return answer
            finally:
                self._trying = self._trying and not trying
            await self._sleep(pause)

    async def _wait_for_turn(self) -> bool:
        """Wait until the model may be asked; whether that is to try if it is back."""
        while True:
            now, until = self._clock(), max(self._asked_until, self._out_until)
            if now >= until and not self._cool_down:
                return False
            if now >= until and not self._trying:
                self._trying = True
                return True
            late = self._failures and max(now, until) > self._deadline
            if late or until - now > self._outage_seconds:  # others may have been answered since it asked for that
                raise self._outage(now)
            await self._sleep(_NAP if now >= until else min(_NAP, max(until - now, _SHORTEST_NAP)))

    def _pause_after(self, fault: ModelFault, failures: int, trying: bool, others_answered: bool) -> float:
        """How long to pause after a fault; Outage when there is nothing to wait for."""
        if not fault.transient:
            raise Outage(f"{self._model}: {fault}") from fault
        now = self._clock()
        self._since = self._since if self._failures else now
        self._failures += 1
        self._last = str(fault)
        if fault.retry_after_seconds:
            self._asked_until = max(self._asked_until, now + fault.retry_after_seconds)
        over = now >= self._deadline or self._asked_until > self._deadline
        spent = failures > self._retries
        out = over or trying or spent or self._failures >= FAILURES_UNTIL_OUT
        if spent and others_answered and not over:
            raise Outage(
                f"{self._model} answers others, but failed one request {failures} times, the last with: {fault}"
            ) from fault
        if out:
            self._extend_cool_down(now, trying)
        if over:
            raise self._outage(now) from fault
        if out:
            return 0.0
        pause = self._rng.uniform(0, min(_LONGEST, _FIRST_PAUSE * 2 ** (failures - 1)))
        return min(pause, self._deadline - now)

    def _extend_cool_down(self, now: float, trying: bool) -> None:
        """The model is out: for longer after each try that failed, with a last try when its time is over."""
        if self._cool_down and not trying:
            return  # a request that was under way when it went out
        self._cool_down = min(2 * self._cool_down or _FIRST_COOL_DOWN, _LONGEST)
        self._out_until = now + self._cool_down
        if now < self._deadline:
            self._out_until = min(self._out_until, self._deadline)

    @property
    def _deadline(self) -> float:
        return self._since + self._outage_seconds

    def _outage(self, now: float) -> Outage:
        told = f"{self._failures} requests in a row failed" if self._failures > 1 else "a request failed"
        wait = self._asked_until - now
        asked = f"; it asks to be left alone for {wait:.0f} s" if self._asked_until > self._deadline else ""
        return Outage(
            f"{self._model} gave no reply: {told} within {now - self._since:.0f} s, "
            f"the last with: {self._last}{asked}"
        )
