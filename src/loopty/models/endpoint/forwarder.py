"""Forwards calls to a provider with loopty's key, through the one layer that retries."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from loopty.domain.model import ModelSpec, Outage, Usage
from loopty.kit.records import Record
from loopty.models.endpoint.answer_source import BrokenAnswer, HttpResponse, NoAnswer, TrialRequest
from loopty.models.endpoint.cache import LARGEST_REPLY
from loopty.models.endpoint.charges import Bill, charge
from loopty.models.endpoint.forwarded_call import ForwardedCall
from loopty.models.endpoint.provider_faults import ProviderFault, convert_faults, provider_fault, refusal_reason
from loopty.models.endpoint.upstream import Upstream, visible_headers
from loopty.models.endpoint.usage_reader import EventSplitter, UsageReader, is_reply, usage_of
from loopty.models.http import close_answers, http_client
from loopty.models.keys import bytes_without_key
from loopty.models.meter import Meter
from loopty.models.retry import Retry

_LARGEST_ANSWER = 64 << 20
_EVENTS = "text/event-stream"
_REFUSED = 400


class _OpenStream(Record):
    """An answer that has begun, with everything that is open for it."""

    response: Any
    bill: Bill
    open: contextlib.AsyncExitStack
    deadline: float
    headers: Mapping[str, str]
    """The headers that the benchmark sees."""
    key: str | None


class Forwarder:
    """Forwards calls to one provider. Use it from one event loop only."""

    def __init__(self, upstream: Upstream, spec: ModelSpec, meter: Meter, retry: Retry) -> None:
        self._upstream = upstream
        self._spec = spec
        self._meter = meter
        self._retry = retry
        self._client: Any = None
        self._has_answered = False
        """Whether the model has answered: a later 'not found' is then about something else in the request."""

    async def answer(self, call: ForwardedCall, trial_request: TrialRequest) -> None:
        self._upstream.refuse_unsupported(call)
        responses: list[HttpResponse] = []

        async def attempt() -> HttpResponse | _OpenStream:
            try:
                answer = await self._ask_once(call, trial_request)
            except ProviderFault as fault:
                trial_request.fault = str(fault)
                responses[:] = [fault.response] if fault.response else responses
                raise
            trial_request.fault = ""
            return answer

        try:
            answer = await self._retry.ask(attempt)
        except Outage as outage:
            if responses:
                raise NoAnswer(str(outage), responses[-1]) from outage
            raise
        if isinstance(answer, HttpResponse):
            if answer.status < _REFUSED and is_reply(answer.body):
                trial_request.keep(answer)
            await trial_request.exchange.answer(answer.status, answer.headers, answer.body)
            return
        async with answer.open:
            await self._pass_stream_on(call, answer, trial_request)

    async def _ask_once(self, call: ForwardedCall, trial_request: TrialRequest) -> HttpResponse | _OpenStream:
        """Send one request, paid for on its own. Raises ProviderFault."""
        key = self._upstream.address.key
        async with contextlib.AsyncExitStack() as stack:
            bill = await stack.enter_async_context(charge(self._meter, call, trial_request.subject))
            deadline = asyncio.get_running_loop().time() + self._spec.timeout_seconds
            with convert_faults(bill, self._spec):
                async with asyncio.timeout_at(deadline):
                    response = await stack.enter_async_context(self._response(call, trial_request))
                    headers = visible_headers(response.headers, key)
                    self._has_answered |= response.status_code < _REFUSED
                    if response.status_code < _REFUSED and _is_stream(response.headers):
                        return _OpenStream(response, bill, stack.pop_all(), deadline, headers, key)
                    body = bytes_without_key(await response.aread(), key)
            answer = HttpResponse(response.status_code, headers, body)
            if answer.status < _REFUSED:
                bill.usage, bill.failure = usage_of(call.api, body), ""
                return answer
            path = urlsplit(self._upstream.url(call)).path
            known = self._has_answered
            fault = provider_fault(answer, response.headers, self._spec, path, key, has_answered=known)
            bill.usage = Usage()
            bill.failure = str(fault or refusal_reason(answer, path, key, has_answered=known))
            if fault:
                raise fault
            trial_request.refusal = bill.failure
            return answer

    @contextlib.asynccontextmanager
    async def _response(self, call: ForwardedCall, trial_request: TrialRequest) -> AsyncIterator[Any]:
        import httpx2

        if self._client is None:
            self._client = http_client(httpx2, _LARGEST_ANSWER, self._spec.timeout_seconds)
        url, headers = self._upstream.url(call), self._upstream.headers(trial_request.request)
        async with (
            close_answers(),
            self._client.stream("POST", url, content=call.content, headers=headers) as response,
        ):
            yield response

    async def _pass_stream_on(self, call: ForwardedCall, stream: _OpenStream, trial_request: TrialRequest) -> None:
        """Pass a stream on to the benchmark, event by event."""
        events, reader, content = EventSplitter(), UsageReader(call.api), bytearray()
        exchange, bill, headers = trial_request.exchange, stream.bill, stream.headers

        async def pass_on(event: bytes) -> None:
            event = bytes_without_key(event, stream.key)
            # A client that did not ask for the usage may not expect an event without choices.
            if not reader.read(event) or call.shows_usage:
                content.extend(event[: max(LARGEST_REPLY + 1 - len(content), 0)])
                await exchange.send(event)

        await exchange.begin(stream.response.status_code, headers)
        try:
            with convert_faults(bill, self._spec):
                async with asyncio.timeout_at(stream.deadline):
                    async for piece in stream.response.aiter_bytes():
                        for event in events.feed(piece):
                            await pass_on(event)
        except ProviderFault as fault:
            raise BrokenAnswer(str(fault)) from fault
        if events.rest:
            await pass_on(events.rest)
        if not reader.has_ended:
            bill.failure = "the stream ended too early"
            raise BrokenAnswer(bill.failure)
        bill.usage, bill.failure = reader.usage, ""
        if reader.whole:
            trial_request.keep(HttpResponse(stream.response.status_code, headers, bytes(content)))
        await exchange.end()


def _is_stream(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").partition(";")[0].strip().lower() == _EVENTS
