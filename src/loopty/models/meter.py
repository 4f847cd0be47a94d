"""What one role spends on one model: nothing is sent before it is reserved, whatever is sent gets settled."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass

from loopty.domain.errors import Crowded, Exhausted
from loopty.domain.ids import NodeId
from loopty.domain.model import ModelSpec, Prompt, Role, Usage
from loopty.domain.pool import Pool
from loopty.kit.token_count import byte_size, tokens
from loopty.models.allowance import Allowance
from loopty.models.prices import FREE, Rates
from loopty.models.purse import RunPurse
from loopty.models.spend_caps import Price
from loopty.models.throttle import Admission, Clock, Throttle

USEFUL_OUTPUT = 512
"""Where a cap leaves room for this much of a reply, a shorter one is asked for."""
CANCELLED = "it was broken off"
"""Why there was no reply, where the one who asked did not wait for it."""

_PER_MESSAGE = 4
_WORST_PER_MESSAGE = 16
_WORST_BESIDES = 256
"""Tokens that a provider adds to what it is sent: marks of messages, the wording of its template."""
_MOST_COUNTED = 10**9
"""Tokens that a call may have: a server that tells of more, or of less than none, is not believed."""
_LOOK_AGAIN_SECONDS = 1.0
"""Between two looks at what other processes have settled."""


@dataclass(frozen=True, slots=True)
class RequestSize:
    """How long a request is in tokens: as estimated, at the worst, and how long its reply may be."""

    input: int
    worst_input: int
    output: int

    @classmethod
    def of_prompt(cls, prompt: Prompt, stated: ModelSpec) -> RequestSize:
        texts = [*prompt.texts]
        if prompt.schema is not None:
            texts.append(json.dumps(prompt.schema))
        expected = sum(tokens(text) + _PER_MESSAGE for text in texts)
        worst = sum(byte_size(text) + _WORST_PER_MESSAGE for text in texts) + _WORST_BESIDES
        longest = prompt.longest_reply(stated.max_output_tokens)
        room = stated.window_tokens - expected
        return cls(expected, worst, min(longest, max(room, USEFUL_OUTPUT)))


@dataclass(frozen=True, slots=True)
class Subject:
    """What a call is about, as the ledger records it."""

    operator: str
    node: NodeId | None = None
    pool: Pool | None = None
    allowance: Allowance | None = None
    """What bounds it beside the caps, where it is made for a trial; not recorded."""


@dataclass(frozen=True, slots=True)
class ReservedCall:
    """A request that may be sent now. It must be settled, whatever happens."""

    call: str
    expected: Usage
    """Its output is as long as the reply may be."""
    settle: Callable[[Usage | None, str], None]
    """Charge what it used, None for as much as was reserved; with why there was no reply, or nothing."""


class Settlements:
    """Tells those who wait for room in a budget that a call of this process was settled."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def notify(self) -> None:
        self._next.set()
        self._next = asyncio.Event()

    async def wait_for_next(self, seconds: float) -> bool:
        """Wait for the next one, no longer than so many seconds; whether it came."""
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(self._next.wait(), seconds)
        return False


class Meter:
    """Throttles, and keeps to the caps: those of the run and those of the role, in tokens and in money."""

    def __init__(
        self,
        role: Role,
        model: str,
        stated: ModelSpec,
        rates: Rates | None,
        purse: RunPurse,
        throttle: Throttle,
        settlements: Settlements,
        clock: Clock,
    ) -> None:
        self._role = role
        self._model = model
        # No call takes longer than this.
        self._patience_seconds = stated.timeout_seconds + stated.outage_seconds
        self._rates = rates or FREE
        self._purse = purse
        self._throttle = throttle
        self._settlements = settlements
        self._clock = clock
        self._in_flight = 0
        self._overrun: float | None = None
        """How many times its worst a call has cost, as some servers pass the limit they are given; None before
        the first reply."""

    async def reserve(self, request: RequestSize, subject: Subject) -> ReservedCall:
        """Wait until the request may be sent, and set aside what it will cost.

        Where a cap leaves no room for the whole reply, a shorter one is reserved. Raises Exhausted when not even
        that fits, Overspent when the allowance of its trial has no room for the whole reply.
        """
        patience = self._clock() + self._patience_seconds
        while True:
            start = await self._throttle.start(request.input + request.output)
            try:
                return self._reserve_now(request, subject, start)
            except Crowded:
                self._throttle.undo(start)
                if self._clock() > patience:
                    raise  # what is in flight belongs to a process that died
            except BaseException:
                self._throttle.undo(start)
                raise
            if await self._settlements.wait_for_next(_LOOK_AGAIN_SECONDS):
                patience = self._clock() + self._patience_seconds

    def _reserve_now(self, request: RequestSize, subject: Subject, start: Admission) -> ReservedCall:
        try:
            return self._reserve_output(request, request.output, subject, start)
        except Crowded:
            raise
        except Exhausted:
            shorter = max(self._affordable_output(request), min(USEFUL_OUTPUT, request.output))
            return self._reserve_output(request, shorter, subject, start)

    def _affordable_output(self, request: RequestSize) -> int:
        """How long a reply what is left allows."""
        left = self._purse.remaining(self._role)
        bought = self._rates.affordable_output(request.input, left.money_usd)
        whole = bought if math.isinf(bought) else math.ceil(bought) - 1  # a sum that is rounded up passes the cap
        return int(min(left.tokens - request.input, whole, request.output))

    def _reserve_output(
        self, request: RequestSize, output: int, subject: Subject, start: Admission
    ) -> ReservedCall:
        if self._in_flight and self._overrun is None and self._is_capped(subject):
            raise Crowded("the first call is to show what the model really uses")
        expected, worst = Usage(request.input, output), Usage(request.worst_input, output)
        money_usd, worst_usd, times = self._rates.cost(expected), self._rates.cost(worst), self._overrun or 1.0
        most = Price(worst.tokens * times, worst_usd * times)
        if allowance := subject.allowance:
            allowance.admit(Price(expected.tokens, money_usd))
        call = self._purse.reserve(
            self._role,
            expected.tokens,
            money_usd,
            most,
            self._model,
            subject.operator,
            subject.node,
            subject.pool,
        )
        if allowance:
            allowance.reserve(call, most)
        start.tokens = expected.tokens
        self._in_flight += 1

        def settle(told: Usage | None, failure: str) -> None:
            used = told if told is not None and _is_credible(told) else None
            cost = money_usd if used is None else self._rates.cost(used)
            spent = expected.tokens if used is None else used.tokens
            start.tokens = spent
            self._in_flight -= 1
            if not failure:  # one that does not count is charged as reserved, which shows nothing else either
                dearer = cost / worst_usd if worst_usd else 1.0
                self._overrun = max(self._overrun or 1.0, spent / worst.tokens, dearer)
            if allowance:
                allowance.settle(call, Price(spent, cost), failed=failure not in ("", CANCELLED))
            self._purse.settle(call, spent, cost, used, failure)
            self._settlements.notify()

        return ReservedCall(call, expected, settle)

    def _is_capped(self, subject: Subject) -> bool:
        if subject.allowance and subject.allowance.is_limited:
            return True
        left = self._purse.remaining(self._role)
        return not (math.isinf(left.tokens) and math.isinf(left.money_usd))


def _is_credible(told: Usage) -> bool:
    counts = (told.input_tokens, told.output_tokens, told.cached_tokens, told.reasoning_tokens)
    return all(type(count) is int and 0 <= count <= _MOST_COUNTED for count in counts)
