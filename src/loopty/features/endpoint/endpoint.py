"""Serves a role's models to one trial or one coding agent, at a socket that only its sandbox can see."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import math
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from loopty.domain.errors import Exhausted
from loopty.domain.ids import NodeId
from loopty.domain.model import CACHED_CALL, Outage, Role, RoleBudget, Usage
from loopty.features.endpoint.answers import (
    BrokenAnswer,
    Cache,
    EndpointModel,
    NoAnswer,
    ServedCall,
    TrialRequest,
    parse_served_call,
)
from loopty.features.endpoint.chat_api import RoleModelSource
from loopty.features.endpoint.forwarder import Forwarder, upstream_of
from loopty.features.endpoint.http_exchange import (
    NO_RETRY,
    ClientGone,
    Exchange,
    Request,
    RequestBytes,
    RequestRefused,
)
from loopty.kit.records import Record, replace
from loopty.kit.safe_folder import SafeFolder
from loopty.models import prices
from loopty.models.archive import Archive
from loopty.models.catalogue import Catalogue
from loopty.models.meter import Subject
from loopty.models.purse import Price, RunPurse
from loopty.models.trial_access import Allowance, AllowanceExceeded, ServeTrial, TrialAccess

MODELS = "/v1/models"
BENCHMARK = "benchmark"
"""The operator of the benchmark's calls."""
_MAX_CONNECTIONS = 64
_LARGE_BODY = 1 << 16
_PAUSE_SECONDS = 0.1
_TOO_MANY, _BAD_GATEWAY = 429, 502


class EndpointTerms(Record):
    """What is the same for all trials."""

    models: tuple[EndpointModel, ...]
    """The first one's name is the one that trials are told."""
    purse: RunPurse
    cache: Cache
    allowance: Price
    """The limit on what the requests of one trial may cost together."""
    role: Role = Role.USER
    operator: str = BENCHMARK


class Endpoint:
    """Answers the requests of one trial."""

    def __init__(self, terms: EndpointTerms, node: NodeId) -> None:
        self._terms = terms
        self._node = node
        allowance = Allowance(terms.allowance)
        self._access = TrialAccess(terms.models[0].requested_name, allowance)
        self._subject = Subject(terms.operator, node, allowance=allowance, on_call=self._access.calls.append)
        self._connections: set[asyncio.Task[None]] = set()
        self._answers: set[asyncio.Task[None]] = set()
        self._request_bytes = RequestBytes()
        self._parsing = asyncio.Lock()
        self._free = asyncio.Semaphore(_MAX_CONNECTIONS)

    @contextlib.asynccontextmanager
    async def serve(self, listener: socket.socket) -> AsyncIterator[TrialAccess]:
        """Serve until the block ends; then cancel and settle all requests in progress."""
        acceptor = asyncio.create_task(self._accept_connections(listener))
        try:
            yield self._access
        finally:
            tasks = [acceptor, *self._connections]
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*self._answers, return_exceptions=True)  # wait until they are settled
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _accept_connections(self, listener: socket.socket) -> None:
        while True:
            await self._free.acquire()
            try:
                connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            except OSError:  # no file descriptor is free: trials may have many connections open
                self._free.release()
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            task = asyncio.create_task(self._handle_connection(connection))
            self._connections.add(task)
            task.add_done_callback(self._forget_connection)

    def _forget_connection(self, task: asyncio.Task[None]) -> None:
        self._free.release()
        # A failed one stays, so that `serve` raises its error in the end.
        if task.cancelled() or task.exception() is None:
            self._connections.discard(task)

    async def _handle_connection(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        exchange, gone = Exchange(reader, writer, self._request_bytes), False
        try:
            await self._handle_request(exchange)
        except ClientGone:
            gone = True
        finally:
            exchange.close(at_once=gone)

    async def _handle_request(self, exchange: Exchange) -> None:
        """Read one request and answer it, unless the client disconnects first."""
        try:
            trial_request = TrialRequest(
                await exchange.request(), self._subject, exchange, lambda _: None, self._terms.models[0].name
            )
            answer_task = asyncio.create_task(self._answer(trial_request))
            self._answers.add(answer_task)
            answer_task.add_done_callback(self._answers.discard)
            disconnect_task = asyncio.create_task(exchange.wait_for_disconnect())
            try:
                await asyncio.wait({answer_task, disconnect_task}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (answer_task, disconnect_task):
                    task.cancel()
                await asyncio.gather(answer_task, disconnect_task, return_exceptions=True)
            if not answer_task.cancelled():
                answer_task.result()
        except RequestRefused as refusal:
            await exchange.refuse(refusal)
            await exchange.linger()

    async def _answer(self, trial_request: TrialRequest) -> None:
        """Answer a request, and record in the trial's access which failures the candidate is to blame for."""
        self._access.open_requests += 1
        try:
            await self._serve_request(trial_request)
        # A spent cap or a provider that is down never counts against the candidate; its own allowance does.
        except Exhausted as end:
            self._access.exhausted = self._access.exhausted or end
            raise RequestRefused(_TOO_MANY, "insufficient_quota", f"loopty: {end}") from None
        except AllowanceExceeded as end:
            self._access.allowance_exceeded = self._access.allowance_exceeded or end
            raise RequestRefused(_TOO_MANY, "insufficient_quota", f"loopty: {end}") from None
        except Outage as outage:
            trial_request.fault = str(outage)
            raise RequestRefused(_BAD_GATEWAY, "api_error", f"loopty: {outage}") from None
        except NoAnswer as end:
            trial_request.fault = str(end)
            # The one layer that retries has given up: the client must not start retries of its own.
            response = end.response
            await trial_request.exchange.answer(response.status, {**response.headers, **NO_RETRY}, response.body)
        except BrokenAnswer as broken:
            # The answer gets no end, so that the client notices that it is not whole.
            trial_request.fault = str(broken)
        finally:
            self._access.open_requests -= 1
            model = trial_request.model
            self._access.refusal = trial_request.refusal and f"{model}: {trial_request.refusal}"
            if trial_request.fault and self._access.outage is None:
                fault = trial_request.fault
                names_model = fault.startswith(model)  # the retry layer names the model
                self._access.outage = Outage(fault if names_model else f"{model}: {fault}")

    async def _serve_request(self, trial_request: TrialRequest) -> None:
        request, terms = trial_request.request, self._terms
        self._check_key(request)
        if request.path == MODELS:
            await trial_request.exchange.answer(200, {"content-type": "application/json"}, self._models())
            return
        served = await self._parse_call(request)
        model, call = served.model, served.call
        trial_request.request, trial_request.model = replace(request, body=b""), model.name
        key = terms.cache.key(call, model.cache_name)
        if key is None:
            await model.source.answer(call, trial_request)
            return
        async with terms.cache.lock(key):
            reply = await asyncio.to_thread(terms.cache.find, key)
            if reply is None:
                trial_request.keep = functools.partial(terms.cache.keep, key)
                await model.source.answer(call, trial_request)
                return
        await terms.purse.wait_for_ledger()
        self._record_hit(model.name)
        await trial_request.exchange.answer(reply.status, reply.headers, reply.body)

    async def _parse_call(self, request: Request) -> ServedCall:
        if len(request.body) < _LARGE_BODY:
            return parse_served_call(request, self._terms.models)
        # One at a time, and off the event loop: hostile megabytes would hold up other trials.
        async with self._parsing:
            return await asyncio.to_thread(parse_served_call, request, self._terms.models)

    def _record_hit(self, model: str) -> None:
        purse = self._terms.purse
        with contextlib.suppress(Exhausted):  # a cap that is used up does not forbid free answers
            call = purse.reserve(self._terms.role, 0, 0.0, model=model, operator=CACHED_CALL, node=self._node)
            purse.settle(call, 0, 0.0, Usage())

    def _check_key(self, request: Request) -> None:
        if not self._access.admits(request.headers):
            raise RequestRefused(
                401,
                "authentication_error",
                "loopty: send the key of this trial, from OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY",
            )

    def _models(self) -> bytes:
        name = self._access.model
        entry = {"id": name, "object": "model", "type": "model", "display_name": name, "owned_by": "loopty"}
        return json.dumps({"object": "list", "data": [{**entry, "created": 0}], "has_more": False}).encode()


def make_endpoint(
    catalogue: Catalogue,
    budget: RoleBudget,
    purse: RunPurse,
    archive: Archive,
    folder: SafeFolder,
    role: Role = Role.USER,
    operator: str = BENCHMARK,
) -> ServeTrial:
    """Make a function that serves a role's models to a trial or an agent from the purse; `folder` caches replies.

    An agent gets the first model alone. Raises Misuse when a model is unknown, its key is missing, or money is
    capped but the price is unknown.
    """
    allowance = _allowance(budget)
    # Only a benchmark asks the same again and again: an agent that got old replies would repeat old work.
    cache = budget.cache if role is Role.USER else "never"
    names = budget.names if role is Role.USER else (budget.model,)
    if role is Role.USER:
        for name in names:
            prices.require_cap(role, name, catalogue.spec(name), allowance, "trial_tokens under [roles.user]")
    models = tuple(_served_model(catalogue, budget, name, role, purse, archive) for name in names)
    terms = EndpointTerms(models, purse, Cache(folder, cache), allowance, role, operator)

    def serve(node: NodeId, listener: socket.socket) -> AbstractAsyncContextManager[TrialAccess]:
        return Endpoint(terms, node).serve(listener)

    return serve


def _served_model(
    catalogue: Catalogue, budget: RoleBudget, name: str, role: Role, purse: RunPurse, archive: Archive
) -> EndpointModel:
    spec, weight = catalogue.spec(name), budget.weight(name)
    if (upstream := upstream_of(spec.display_name(name), spec, catalogue.key(name))) is not None:
        source = Forwarder(upstream, spec, catalogue.meter(role, name, purse), catalogue.retry(name))
        return EndpointModel(upstream.model, spec, source, weight)
    role_model = catalogue.role_model(role, name, purse, archive)
    return EndpointModel(role_model.model, spec, RoleModelSource(role_model), weight)


def _allowance(budget: RoleBudget) -> Price:
    tokens, money_usd = budget.allowance
    return Price(math.inf if tokens is None else tokens, math.inf if money_usd is None else money_usd)
