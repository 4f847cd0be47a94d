"""Passes calls on to a provider with loopty's key; they are repeated by the one layer that repeats."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from loopty.domain.model import ModelSpec, Outage, Usage
from loopty.models.endpoint.answer_source import BrokenAnswer, HttpResponse, NoAnswer, TrialRequest
from loopty.models.endpoint.cache import LARGEST_REPLY
from loopty.models.endpoint.charges import Bill, charge
from loopty.models.endpoint.forwarded_call import ForwardedCall
from loopty.models.endpoint.provider_faults import ProviderFault, convert_faults, provider_fault, refusal_reason
from loopty.models.endpoint.upstream import Upstream, UpstreamAddress, visible_headers
from loopty.models.endpoint.usage_reader import EventSplitter, UsageReader, is_reply, usage_of
from loopty.models.hiding import bytes_without_key
from loopty.models.http import close_answers, http_client
from loopty.models.meter import Meter
from loopty.models.retry import Retry

_LARGEST_ANSWER = 64 << 20
_EVENTS = "text/event-stream"
_REFUSED = 400


@dataclass(frozen=True, slots=True)
class _OpenStream:
    """An answer that has begun, and everything that is open for it."""

    response: Any
    bill: Bill
    open: contextlib.AsyncExitStack
    deadline: float
    headers: Mapping[str, str]
    """What the benchmark sees of them."""
    key: str | None


class Forwarder:
    """The way to one provider. To be used from one event loop only."""

    def __init__(self, upstream: Upstream, stated: ModelSpec, meter: Meter, retry: Retry) -> None:
        self._upstream = upstream
        self._stated = stated
        self._meter = meter
        self._retry = retry
        self._client: Any = None
        self._known = stated.provider == "local"  # loopty itself serves it, so it is there
        """Whether the model has answered: what is not found from then on is not for want of the model."""

    async def answer(self, call: ForwardedCall, trial_request: TrialRequest) -> None:
        self._upstream.refuse_unsupported(call)
        said: list[HttpResponse] = []

        async def attempt() -> HttpResponse | _OpenStream:
            try:
                found = await self._ask_once(call, trial_request)
            except ProviderFault as down:
                trial_request.fault = str(down)
                said[:] = [down.response] if down.response else said
                raise
            trial_request.fault = ""
            return found

        try:
            found = await self._retry.ask(attempt)
        except Outage as outage:
            if said:
                raise NoAnswer(str(outage), said[-1]) from outage
            raise
        if isinstance(found, HttpResponse):
            if found.status < _REFUSED and is_reply(found.body):
                trial_request.keep(found)
            await trial_request.exchange.answer(found.status, found.headers, found.body)
            return
        async with found.open:
            await self._pass_stream_on(call, found, trial_request)

    async def _ask_once(self, call: ForwardedCall, visit: TrialRequest) -> HttpResponse | _OpenStream:
        """One request, paid for on its own. Raises Down."""
        place = await self._upstream.address()
        async with contextlib.AsyncExitStack() as open_:
            bill = await open_.enter_async_context(charge(self._meter, call, visit.subject))
            deadline = asyncio.get_running_loop().time() + self._stated.timeout_seconds
            with convert_faults(bill, self._stated):
                async with asyncio.timeout_at(deadline):
                    response = await open_.enter_async_context(self._response(place, call, visit))
                    headers = visible_headers(response.headers, place.key)
                    self._known |= response.status_code < _REFUSED
                    if response.status_code < _REFUSED and _is_stream(response.headers):
                        return _OpenStream(response, bill, open_.pop_all(), deadline, headers, place.key)
                    body = bytes_without_key(await response.aread(), place.key)
            answered = HttpResponse(response.status_code, headers, body)
            if answered.status < _REFUSED:
                bill.usage, bill.failure = usage_of(call.api, body), ""
                return answered
            at, key = urlsplit(self._upstream.url(place, call)).path, place.key
            down = provider_fault(answered, response.headers, self._stated, at, key, has_answered=self._known)
            bill.usage, bill.failure = (
                Usage(),
                str(down or refusal_reason(answered, at, key, has_answered=self._known)),
            )
            if down:
                raise down
            visit.refusal = bill.failure
            return answered

    @contextlib.asynccontextmanager
    async def _response(
        self, place: UpstreamAddress, call: ForwardedCall, visit: TrialRequest
    ) -> AsyncIterator[Any]:
        import httpx2

        if self._client is None:
            self._client = http_client(httpx2, _LARGEST_ANSWER, self._stated.timeout_seconds)
        url, headers = self._upstream.url(place, call), self._upstream.headers(place, visit.request)
        async with (
            close_answers(),
            self._client.stream("POST", url, content=call.content, headers=headers) as response,
        ):
            yield response

    async def _pass_stream_on(self, call: ForwardedCall, streaming: _OpenStream, visit: TrialRequest) -> None:
        """Pass a stream on, event by event."""
        events, reading, kept = EventSplitter(), UsageReader(call.api), bytearray()
        exchange, bill, headers = visit.exchange, streaming.bill, streaming.headers

        async def pass_on(event: bytes) -> None:
            event = bytes_without_key(event, streaming.key)
            # Who did not ask for the usage may not know an event without choices.
            if not reading.read(event) or call.shows_usage:
                kept.extend(event[: max(LARGEST_REPLY + 1 - len(kept), 0)])
                await exchange.send(event)

        await exchange.begin(streaming.response.status_code, headers)
        try:
            with convert_faults(bill, self._stated):
                async with asyncio.timeout_at(streaming.deadline):
                    async for piece in streaming.response.aiter_bytes():
                        for event in events.feed(piece):
                            await pass_on(event)
        except ProviderFault as down:
            raise BrokenAnswer(str(down)) from down
        if events.rest:
            await pass_on(events.rest)
        if not reading.has_ended:
            bill.failure = "the stream ended before its end"
            raise BrokenAnswer(bill.failure)
        bill.usage, bill.failure = reading.usage, ""
        if reading.whole:
            visit.keep(HttpResponse(streaming.response.status_code, headers, bytes(kept)))
        await exchange.end()


def _is_stream(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").partition(";")[0].strip().lower() == _EVENTS
