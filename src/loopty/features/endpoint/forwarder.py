"""Forwards calls to a provider with loopty's key, to the place where it serves its models, through the one layer
that retries.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any
from urllib.parse import urlsplit

from loopty.domain.model import ModelSpec, Outage, Usage
from loopty.features.endpoint.answers import LARGEST_REPLY, BrokenAnswer, HttpResponse, NoAnswer, TrialRequest
from loopty.features.endpoint.http_exchange import Request, RequestRefused
from loopty.features.endpoint.provider_faults import (
    Bill,
    ProviderFault,
    charge,
    convert_faults,
    provider_fault,
    refusal_reason,
)
from loopty.features.endpoint.requests import API_HEADERS, Api, ForwardedCall
from loopty.features.endpoint.usage_reader import EventSplitter, UsageReader, is_reply, usage_of
from loopty.kit.records import Record
from loopty.models.http import close_answers, http_client
from loopty.models.keys import PROVIDER_URLS, bytes_without_key
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


_OPENAI = (Api.CHAT, Api.RESPONSES, Api.EMBEDDINGS)
_LIKE_OPENAI = PROVIDER_URLS.keys() - {"anthropic", "google"}
_VISIBLE = ("content-type", "retry-after", "request-id", "x-request-id")
_VERSION = "/v1"


class UpstreamAddress(Record):
    """An address and the key to it; `versionless` when the address does not include the version."""

    base_url: str
    key: str | None
    versionless: bool = True

    def __repr__(self) -> str:
        return f"UpstreamAddress(base_url={self.base_url!r})"  # the key is for no log


class Upstream(Record):
    """A provider that loopty can forward calls to."""

    model: str
    """The name that the ledger shows."""
    apis: Collection[Api]
    address: UpstreamAddress
    key_header: str = "authorization"

    def refuse_unsupported(self, call: ForwardedCall) -> None:
        # Requests are never translated: another API than the provider's is refused with the name of the right one.
        if call.api not in self.apis:
            raise RequestRefused(
                400,
                "invalid_request_error",
                f"the user role's model, {self.model}, does not answer at {call.path}: use {', '.join(self.apis)}",
            )

    def url(self, call: ForwardedCall) -> str:
        path = call.path if self.address.versionless else call.path.removeprefix(_VERSION)
        return self.address.base_url.rstrip("/") + path + (f"?{call.query}" if call.query else "")

    def headers(self, request: Request) -> dict[str, str]:
        """List the headers to send: of the benchmark's own only those that select how the API answers."""
        sent = {name: request.headers[name] for name in API_HEADERS if _is_plain(request.headers.get(name, ""))}
        if Api.MESSAGES in self.apis:
            sent.setdefault("anthropic-version", "2023-06-01")
        sent["content-type"] = "application/json"
        if (key := self.address.key) is not None:
            sent[self.key_header] = f"Bearer {key}" if self.key_header == "authorization" else key
        return sent


def upstream_of(model: str, spec: ModelSpec, key: str | None) -> Upstream | None:
    """Find how to forward calls to the provider, or None when loopty cannot."""

    def address(versionless: bool) -> UpstreamAddress:
        return UpstreamAddress(spec.url or PROVIDER_URLS[spec.provider], key, versionless)

    if spec.provider == "anthropic":
        return Upstream(model, (Api.MESSAGES,), address(versionless=True), "x-api-key")
    if spec.provider == "google":
        return Upstream(model, (Api.GENERATE,), address(versionless=True), "x-goog-api-key")
    if spec.provider in _LIKE_OPENAI:
        return Upstream(model, _OPENAI, address(versionless=False))
    return None


def visible_headers(headers: Mapping[str, str], key: str | None) -> dict[str, str]:
    """Choose the headers of a provider that the benchmark sees."""
    shown = {name: headers.get(name, "") for name in _VISIBLE}
    return {name: value for name, value in shown.items() if _is_plain(value) and not (key and key in value)}


def _is_plain(value: str) -> bool:
    """Say whether a header's value can be passed on: some libraries accept bytes that others do not send."""
    return bool(value) and value.isascii() and value.isprintable()
