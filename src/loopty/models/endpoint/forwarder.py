"""Passes calls on to a provider with loopty's key; they are repeated by the one layer that repeats."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from loopty.domain.model import ModelSpec, Outage, Usage
from loopty.models.endpoint.answer_source import Answered, Cut, Unanswered, Visit
from loopty.models.endpoint.cache import LARGEST_REPLY
from loopty.models.endpoint.charges import Bill, charged
from loopty.models.endpoint.forwarded_call import Call
from loopty.models.endpoint.provider_faults import Down, fault_of, faults, refusal_of
from loopty.models.endpoint.upstream import Place, Upstream, passed_on
from loopty.models.endpoint.usage_reader import Events, Reading, is_reply, usage_of
from loopty.models.hiding import bytes_without_key
from loopty.models.http import answers_closed, http_client
from loopty.models.meter import Meter
from loopty.models.retry import Retry

_LARGEST_ANSWER = 64 << 20
_EVENTS = "text/event-stream"
_REFUSED = 400


@dataclass(frozen=True, slots=True)
class _Streaming:
    """An answer that has begun, and everything that is open for it."""

    response: Any
    bill: Bill
    open: contextlib.AsyncExitStack
    deadline: float
    headers: Mapping[str, str]
    """What the benchmark sees of them."""
    key: str | None


class Forwarding:
    """The way to one provider. To be used from one event loop only."""

    def __init__(self, upstream: Upstream, stated: ModelSpec, meter: Meter, retry: Retry) -> None:
        self._upstream = upstream
        self._stated = stated
        self._meter = meter
        self._retry = retry
        self._client: Any = None
        self._known = stated.provider == "local"  # loopty itself serves it, so it is there
        """Whether the model has answered: what is not found from then on is not for want of the model."""

    async def answer(self, call: Call, visit: Visit) -> None:
        self._upstream.refuse_unspoken(call)
        said: list[Answered] = []

        async def asked() -> Answered | _Streaming:
            try:
                found = await self._asked(call, visit)
            except Down as down:
                visit.fault = str(down)
                said[:] = [down.said] if down.said else said
                raise
            visit.fault = ""
            return found

        try:
            found = await self._retry.answered(asked)
        except Outage as outage:
            if said:
                raise Unanswered(str(outage), said[-1]) from outage
            raise
        if isinstance(found, Answered):
            if found.status < _REFUSED and is_reply(found.body):
                visit.keep(found)
            await visit.exchange.answer(found.status, found.headers, found.body)
            return
        async with found.open:
            await self._streamed(call, found, visit)

    async def _asked(self, call: Call, visit: Visit) -> Answered | _Streaming:
        """One request, paid for on its own. Raises Down."""
        place = await self._upstream.place()
        async with contextlib.AsyncExitStack() as open_:
            bill = await open_.enter_async_context(charged(self._meter, call, visit.subject))
            deadline = asyncio.get_running_loop().time() + self._stated.timeout_seconds
            with faults(bill, self._stated):
                async with asyncio.timeout_at(deadline):
                    response = await open_.enter_async_context(self._response(place, call, visit))
                    headers = passed_on(response.headers, place.key)
                    self._known |= response.status_code < _REFUSED
                    if response.status_code < _REFUSED and _is_stream(response.headers):
                        return _Streaming(response, bill, open_.pop_all(), deadline, headers, place.key)
                    body = bytes_without_key(await response.aread(), place.key)
            answered = Answered(response.status_code, headers, body)
            if answered.status < _REFUSED:
                bill.usage, bill.failure = usage_of(call.api, body), ""
                return answered
            at, key = urlsplit(self._upstream.url(place, call)).path, place.key
            down = fault_of(answered, response.headers, self._stated, at, key, known=self._known)
            bill.usage, bill.failure = Usage(), str(down or refusal_of(answered, at, key, known=self._known))
            if down:
                raise down
            visit.refusal = bill.failure
            return answered

    @contextlib.asynccontextmanager
    async def _response(self, place: Place, call: Call, visit: Visit) -> AsyncIterator[Any]:
        import httpx2

        if self._client is None:
            self._client = http_client(httpx2, _LARGEST_ANSWER, self._stated.timeout_seconds)
        url, headers = self._upstream.url(place, call), self._upstream.headers(place, visit.request)
        async with (
            answers_closed(),
            self._client.stream("POST", url, content=call.content, headers=headers) as response,
        ):
            yield response

    async def _streamed(self, call: Call, streaming: _Streaming, visit: Visit) -> None:
        """Pass a stream on, event by event."""
        events, reading, kept = Events(), Reading(call.api), bytearray()
        exchange, bill, headers = visit.exchange, streaming.bill, streaming.headers

        async def passed(event: bytes) -> None:
            event = bytes_without_key(event, streaming.key)
            # Who did not ask for the usage may not know an event without choices.
            if not reading.read(event) or call.shows_usage:
                kept.extend(event[: max(LARGEST_REPLY + 1 - len(kept), 0)])
                await exchange.send(event)

        await exchange.begin(streaming.response.status_code, headers)
        try:
            with faults(bill, self._stated):
                async with asyncio.timeout_at(streaming.deadline):
                    async for piece in streaming.response.aiter_bytes():
                        for event in events.fed(piece):
                            await passed(event)
        except Down as down:
            raise Cut(str(down)) from down
        if events.rest:
            await passed(events.rest)
        if not reading.ended:
            bill.failure = "the stream ended before its end"
            raise Cut(bill.failure)
        bill.usage, bill.failure = reading.usage, ""
        if reading.whole:
            visit.keep(Answered(streaming.response.status_code, headers, bytes(kept)))
        await exchange.end()


def _is_stream(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").partition(";")[0].strip().lower() == _EVENTS
