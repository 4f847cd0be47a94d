"""Serves the user role's model to one trial, at a socket that only its sandbox shows."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from loopty.domain.errors import Exhausted
from loopty.domain.ids import NodeId
from loopty.domain.model import CACHED_CALL, ModelSpec, Outage, Role, Usage
from loopty.models.allowance import Allowance, AllowanceExceeded
from loopty.models.endpoint import forwarded_call
from loopty.models.endpoint.answer_source import AnswerSource, BrokenAnswer, NoAnswer, TrialRequest
from loopty.models.endpoint.cache import Cache
from loopty.models.endpoint.forwarded_call import ForwardedCall
from loopty.models.endpoint.http_exchange import (
    NO_RETRY,
    ClientGone,
    Exchange,
    Request,
    RequestBytes,
    RequestRefused,
)
from loopty.models.endpoint.trial_access import TrialAccess
from loopty.models.meter import Subject
from loopty.models.purse import RunPurse
from loopty.models.spend_caps import Price

MODELS = "/v1/models"
BENCHMARK = "benchmark"
"""The operator of its calls."""
_MOST_CONNECTIONS = 64
_LARGE = 1 << 16
_PAUSE_SECONDS = 0.1
_TOO_MANY, _BAD_GATEWAY = 429, 502


@dataclass(frozen=True, slots=True)
class Offer:
    """What all trials are served with."""

    model: str
    """As the ledger shows it."""
    stated: ModelSpec
    source: AnswerSource
    purse: RunPurse
    cache: Cache
    allowance: Price
    """What the requests of one trial may cost together."""


class Endpoint:
    """The requests of one trial."""

    def __init__(self, offer: Offer, node: NodeId) -> None:
        self._offer = offer
        self._node = node
        self._subject = Subject(BENCHMARK, node, allowance=Allowance(offer.allowance))
        self._access = TrialAccess(offer.stated.model or offer.model)
        self._connections: set[asyncio.Task[None]] = set()
        self._answering: set[asyncio.Task[None]] = set()
        self._request_bytes = RequestBytes()
        self._preparing = asyncio.Lock()
        self._free = asyncio.Semaphore(_MOST_CONNECTIONS)

    @contextlib.asynccontextmanager
    async def serve(self, listener: socket.socket) -> AsyncIterator[TrialAccess]:
        """Serve; when the block ends, whatever is under way is broken off and paid for."""
        accepting = asyncio.create_task(self._accept(listener))
        try:
            yield self._access
        finally:
            tasks = [accepting, *self._connections]
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*self._answering, return_exceptions=True)  # until they are settled
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            await self._free.acquire()
            try:
                connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            except OSError:  # no descriptor is free: many connections of many trials may be open
                self._free.release()
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            task = asyncio.create_task(self._handle_connection(connection))
            self._connections.add(task)
            task.add_done_callback(self._connection_done)

    def _connection_done(self, task: asyncio.Task[None]) -> None:
        self._free.release()
        # One that failed stays, for its fault to be raised in the end.
        if task.cancelled() or task.exception() is None:
            self._connections.discard(task)

    async def _handle_connection(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        exchange, left = Exchange(reader, writer, self._request_bytes), False
        try:
            await self._handle_request(exchange)
        except ClientGone:
            left = True
        finally:
            exchange.close(at_once=left)

    async def _handle_request(self, exchange: Exchange) -> None:
        """Take one request and answer it, unless the one who asks leaves before."""
        try:
            visit = TrialRequest(await exchange.request(), self._subject, exchange, keep=lambda _: None)
            answering = asyncio.create_task(self._answer(visit))
            self._answering.add(answering)
            answering.add_done_callback(self._answering.discard)
            leaving = asyncio.create_task(exchange.wait_for_disconnect())
            try:
                await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (answering, leaving):
                    task.cancel()
                await asyncio.gather(answering, leaving, return_exceptions=True)
            if not answering.cancelled():
                answering.result()
        except RequestRefused as refusal:
            await exchange.refuse(refusal)
            await exchange.linger()

    async def _answer(self, visit: TrialRequest) -> None:
        """Answer a request, and remember what the trial is to be blamed for, and what not."""
        try:
            await self._serve_request(visit)
        except Exhausted as end:
            self._access.exhausted = self._access.exhausted or end
            raise RequestRefused(_TOO_MANY, "insufficient_quota", f"loopty: {end}") from None
        except AllowanceExceeded as end:
            self._access.allowance_exceeded = self._access.allowance_exceeded or end
            raise RequestRefused(_TOO_MANY, "insufficient_quota", f"loopty: {end}") from None
        except Outage as outage:
            visit.fault = str(outage)
            raise RequestRefused(_BAD_GATEWAY, "api_error", f"loopty: {outage}") from None
        except NoAnswer as end:
            visit.fault = str(end)
            # The one layer that repeats requests has given up: the client's own is told not to begin.
            await visit.exchange.answer(
                end.response.status, {**end.response.headers, **NO_RETRY}, end.response.body
            )
        except BrokenAnswer as cut:
            visit.fault = str(cut)  # and no end of the answer, so that the client learns that it is not whole
        finally:
            self._access.refusal = visit.refusal and f"{self._offer.model}: {visit.refusal}"
            if visit.fault and self._access.outage is None:
                model = self._offer.model
                named = visit.fault.startswith(model)  # what repeats requests says whose they were
                self._access.outage = Outage(visit.fault if named else f"{model}: {visit.fault}")

    async def _serve_request(self, visit: TrialRequest) -> None:
        request, offer = visit.request, self._offer
        self._check_key(request)
        if request.path == MODELS:
            await visit.exchange.answer(200, {"content-type": "application/json"}, self._models())
            return
        call = await self._parse_call(request)
        visit.request = replace(request, body=b"")
        key = offer.cache.key(call)
        if key is None:
            await offer.source.answer(call, visit)
            return
        async with offer.cache.lock(key):
            kept = await asyncio.to_thread(offer.cache.find, key)
            if kept is None:
                visit.keep = functools.partial(offer.cache.keep, key)
                await offer.source.answer(call, visit)
                return
        self._record_hit()
        await visit.exchange.answer(kept.status, kept.headers, kept.body)

    async def _parse_call(self, request: Request) -> ForwardedCall:
        if len(request.body) < _LARGE:
            return forwarded_call.parse_call(request, self._offer.stated, self._access.model)
        # One at a time, and beside the event loop: megabytes that are ill meant would hold up other trials.
        async with self._preparing:
            return await asyncio.to_thread(
                forwarded_call.parse_call, request, self._offer.stated, self._access.model
            )

    def _record_hit(self) -> None:
        purse = self._offer.purse
        with contextlib.suppress(Exhausted):  # a cap that is passed does not forbid what is free
            call = purse.reserve(Role.USER, 0, 0.0, model=self._offer.model, operator=CACHED_CALL, node=self._node)
            purse.settle(call, 0, 0.0, Usage())

    def _check_key(self, request: Request) -> None:
        if not self._access.admits(request.headers):
            raise RequestRefused(
                401,
                "authentication_error",
                "loopty: say the key that the trial was given, OPENAI_API_KEY or its like",
            )

    def _models(self) -> bytes:
        name = self._access.model
        known = {"id": name, "object": "model", "type": "model", "display_name": name, "owned_by": "loopty"}
        return json.dumps({"object": "list", "data": [{**known, "created": 0}], "has_more": False}).encode()
