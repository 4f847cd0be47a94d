"""Meters one role's calls of one model: each is reserved before it is sent, settled after, and its
reply archived.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import Awaitable, Callable

from loopty.domain.errors import Crowded, Exhausted, Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import Answer, Message, Model, ModelFault, ModelSpec, Prompt, Reply, Role, Usage
from loopty.domain.trial import Pool
from loopty.kit.model_text import byte_size, tokens
from loopty.kit.records import Record, replace
from loopty.models.archive import Archive
from loopty.models.prices import FREE, Rates
from loopty.models.purse import Price, RunPurse
from loopty.models.retry import Admission, Clock, Retry, Throttle
from loopty.models.trial_access import Allowance

USEFUL_OUTPUT = 512
"""Tokens. Where a cap has room for at least this much of a reply, a shorter reply is asked for."""
CANCELLED = "it was cancelled"
"""The failure of a call whose caller did not wait for the reply."""

_PER_MESSAGE = 4
_MAX_PER_MESSAGE = 16
_MAX_EXTRA = 256
"""Tokens that a provider adds to a request: marks of messages, the text of its template."""
_MAX_COUNT = 10**9
"""Tokens of a call: a server that reports more, or a negative number, is not believed."""
_CHECK_SECONDS = 1.0
"""Between two checks of what other processes have settled."""


class RequestSize(Record):
    """The tokens of a request: estimated input, maximum input, and the longest reply."""

    input: int
    max_input: int
    output: int

    @classmethod
    def of_prompt(cls, prompt: Prompt, spec: ModelSpec) -> RequestSize:
        texts = [*prompt.texts]
        if prompt.schema is not None:
            texts.append(json.dumps(prompt.schema))
        expected = sum(tokens(text) + _PER_MESSAGE for text in texts)
        maximum = sum(byte_size(text) + _MAX_PER_MESSAGE for text in texts) + _MAX_EXTRA
        longest = prompt.longest_reply(spec.max_output_tokens)
        room = spec.context_tokens - expected
        return cls(expected, maximum, min(longest, max(room, USEFUL_OUTPUT)))


class Subject(Record):
    """What a call is for, as the ledger records it."""

    operator: str
    node: NodeId | None = None
    pool: Pool | None = None
    allowance: Allowance | None = None
    """The trial's limit, where the call is made for a trial; not recorded."""
    on_call: Callable[[str], None] | None = None
    """Called with the name of each call that is reserved; not recorded."""
    form: str = ""
    """The form of answer that is asked for."""


class ReservedCall(Record):
    """A call that may be sent now. It must be settled, whatever happens."""

    call: str
    expected: Usage
    """The output is the longest reply that is reserved."""
    settle: Callable[[Usage | None, str], None]
    """Charge the usage, or with None the reserved amount; the text says why there was no reply, or is empty."""
    wait_for_ledger: Callable[[], Awaitable[None]]

    async def close(self, usage: Usage | None, failure: str) -> None:
        """Settle it; where the ledger is away, other calls go on meanwhile."""
        try:
            await self.wait_for_ledger()
        except asyncio.CancelledError:
            self.settle(usage, failure)
            raise
        self.settle(usage, failure)


class Settlements:
    """Wakes callers that wait for room in a budget when a call of this process is settled."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def notify(self) -> None:
        self._next.set()
        self._next = asyncio.Event()

    async def wait_for_next(self, seconds: float) -> bool:
        """Wait for the next settlement, at most `seconds`; returns whether it came."""
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(self._next.wait(), seconds)
        return False


class Meter:
    """Throttles calls and enforces the caps of the run and of the role, in tokens and in money."""

    def __init__(
        self,
        role: Role,
        model: str,
        spec: ModelSpec,
        rates: Rates | None,
        purse: RunPurse,
        throttle: Throttle,
        settlements: Settlements,
        clock: Clock,
    ) -> None:
        self._role = role
        self._model = model
        # No call takes longer than this.
        self._max_wait_seconds = spec.timeout_seconds + spec.outage_seconds
        self._rates = rates or FREE
        self._purse = purse
        self._throttle = throttle
        self._settlements = settlements
        self._clock = clock
        self._in_flight = 0
        self._overrun: float | None = None
        """The highest ratio of a call's real to its maximum cost, as some servers ignore the limit they are given;
        None before the first reply."""

    async def reserve(self, request: RequestSize, subject: Subject) -> ReservedCall:
        """Wait until the request may be sent, and reserve its cost.

        Where a cap leaves no room for the whole reply, a shorter one is reserved. Raises Exhausted when not even
        that fits, and AllowanceExceeded when the trial's allowance has no room for the whole reply.
        """
        deadline = self._clock() + self._max_wait_seconds
        while True:
            admission = await self._throttle.start(request.input + request.output)
            try:
                await self._purse.wait_for_ledger()
                return self._reserve_now(request, subject, admission)
            except Crowded:
                self._throttle.undo(admission)
                if self._clock() > deadline:
                    raise  # the calls in flight belong to a process that died
            except BaseException:
                self._throttle.undo(admission)
                raise
            if await self._settlements.wait_for_next(_CHECK_SECONDS):
                deadline = self._clock() + self._max_wait_seconds

    def _reserve_now(self, request: RequestSize, subject: Subject, admission: Admission) -> ReservedCall:
        try:
            return self._reserve_output(request, request.output, subject, admission)
        except Crowded:
            raise
        except Exhausted:
            shorter = max(self._affordable_output(request), min(USEFUL_OUTPUT, request.output))
            return self._reserve_output(request, shorter, subject, admission)

    def _affordable_output(self, request: RequestSize) -> int:
        """Return the longest reply, in tokens, that the remaining budget allows."""
        remaining = self._purse.remaining(self._role)
        affordable = self._rates.affordable_output(request.input, remaining.money_usd)
        # Whole tokens below the amount: a sum that is rounded up would pass the cap.
        longest = affordable if math.isinf(affordable) else math.ceil(affordable) - 1
        return int(min(remaining.tokens - request.input, longest, request.output))

    def _reserve_output(
        self, request: RequestSize, output: int, subject: Subject, admission: Admission
    ) -> ReservedCall:
        if self._in_flight and self._overrun is None and self._is_capped(subject):
            raise Crowded("the first call must show how much the model really uses")
        expected, max_usage = Usage(request.input, output), Usage(request.max_input, output)
        money_usd, max_usd, factor = self._rates.cost(expected), self._rates.cost(max_usage), self._overrun or 1.0
        maximum = Price(max_usage.tokens * factor, max_usd * factor)
        if allowance := subject.allowance:
            allowance.admit(Price(expected.tokens, money_usd))
        call = self._purse.reserve(
            self._role,
            tokens=expected.tokens,
            money_usd=money_usd,
            maximum=maximum,
            model=self._model,
            operator=subject.operator,
            node=subject.node,
            pool=subject.pool,
            form=subject.form,
        )
        if allowance:
            allowance.reserve(call, maximum)
        if subject.on_call:
            subject.on_call(call)
        admission.tokens = expected.tokens
        self._in_flight += 1

        def settle(reported: Usage | None, failure: str) -> None:
            used = reported if reported is not None and _is_credible(reported) else None
            cost = money_usd if used is None else self._rates.cost(used)
            spent = expected.tokens if used is None else used.tokens
            admission.tokens = spent
            self._in_flight -= 1
            if not failure:  # without a credible usage the reserved amount is charged, which adds nothing here
                money_ratio = cost / max_usd if max_usd else 1.0
                self._overrun = max(self._overrun or 1.0, spent / max_usage.tokens, money_ratio)
            if allowance:
                allowance.settle(call, Price(spent, cost), failed=failure not in ("", CANCELLED))
            self._purse.settle(call, spent, cost, used, failure)
            self._settlements.notify()

        return ReservedCall(call, expected, settle, self._purse.wait_for_ledger)

    def _is_capped(self, subject: Subject) -> bool:
        if subject.allowance and subject.allowance.is_limited:
            return True
        remaining = self._purse.remaining(self._role)
        return not (math.isinf(remaining.tokens) and math.isinf(remaining.money_usd))


def _is_credible(reported: Usage) -> bool:
    counts = (reported.input_tokens, reported.output_tokens, reported.cached_tokens, reported.reasoning_tokens)
    return all(type(count) is int and 0 <= count <= _MAX_COUNT for count in counts)


class MeteredModel:
    """A model that is throttled, capped, paid for, archived, and retried after transient faults."""

    def __init__(
        self, role: Role, model: Model, spec: ModelSpec, meter: Meter, archive: Archive, retry: Retry
    ) -> None:
        self.model = model.name
        self._role = role
        self._model = model
        self._spec = spec
        self._meter = meter
        self._archive = archive
        self._retry = retry

    async def ask(
        self, prompt: Prompt, operator: str, node: NodeId | None = None, pool: Pool | None = None
    ) -> Answer:
        return await self.ask_about(prompt, Subject(operator, node, pool, form=prompt.form))

    async def ask_about(self, prompt: Prompt, subject: Subject) -> Answer:
        """Return the model's reply. Raises as `ask` does, and AllowanceExceeded when an allowance forbids it."""
        return await self._retry.ask(lambda: self._request(prompt, subject))

    def reply_of(self, call: str) -> Reply:
        return self._archive.reply(call)

    async def _request(self, prompt: Prompt, subject: Subject) -> Answer:
        """Send one request, reserved and settled on its own."""
        reservation = await self._meter.reserve(RequestSize.of_prompt(prompt, self._spec), subject)
        sent = self._outgoing_prompt(prompt, reservation)
        # The server may still answer a cancelled request in full, so the reserved amount is charged.
        usage: Usage | None = None
        failure = CANCELLED
        try:
            reply = await self._model.reply(sent)
            usage = _usage_of(reservation, reply)
            # A server that quotes the key would put it into proposals, and so into the ledger and into commits.
            reply = replace(reply, text=self._archive.without_keys(reply.text))
            # On disk before the call is settled: the process may die before the first proposal of the reply is
            # recorded, and `Spend.unread` tells the next one which paid replies were not taken.
            self._keep(reservation.call, sent, subject, reply, "")
            failure = ""
        except ModelFault as fault:
            usage, failure = fault.usage, self._archive.without_keys(str(fault))
            self._keep(reservation.call, sent, subject, None, failure)
            raise _with_reason(fault, failure) from None
        except Misuse as misuse:
            failure = str(misuse)
            raise
        finally:
            await reservation.close(usage, failure)
        return Answer(reservation.call, reply)

    def _outgoing_prompt(self, prompt: Prompt, reservation: ReservedCall) -> Prompt:
        """Make the prompt to send, without keys: a key in a log or a file must not reach the server."""
        without_keys = self._archive.without_keys
        messages = tuple(Message(message.speaker, without_keys(message.text)) for message in prompt.messages)
        longest = reservation.expected.output_tokens
        return Prompt(without_keys(prompt.system), messages, prompt.schema, longest, prompt.form)

    def _keep(self, call: str, sent: Prompt, subject: Subject, reply: Reply | None, failure: str) -> None:
        self._archive.keep(
            call,
            sent,
            reply,
            failure,
            model=self.model,
            role=self._role,
            operator=subject.operator,
            node=subject.node,
        )


def _usage_of(reservation: ReservedCall, reply: Reply) -> Usage:
    """Return the usage that the reply reports, or an estimate when the server does not count."""
    return reply.usage if reply.usage.tokens else Usage(reservation.expected.input_tokens, tokens(reply.text))


def _with_reason(fault: ModelFault, reason: str) -> ModelFault:
    """Copy the fault with this reason, which holds no keys."""
    return ModelFault(
        reason, transient=fault.transient, retry_after_seconds=fault.retry_after_seconds, usage=fault.usage
    )
