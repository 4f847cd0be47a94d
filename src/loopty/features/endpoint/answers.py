"""What answers the calls of a trial: a provider or a model drawn for the conversation, or the cache of replies
that were paid for.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import random
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from loopty.domain.model import ModelSpec
from loopty.features.endpoint.http_exchange import Exchange, Request
from loopty.features.endpoint.requests import ForwardedCall, make_call, read_body
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFile, SafeFolder
from loopty.models.meter import Subject


class HttpResponse(Record):
    """A whole answer, ready to be sent."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class TrialRequest(Struct):
    """One request of a trial, and the exchange that takes its answer."""

    request: Request
    subject: Subject
    """Which node it is for, and who pays for it."""
    exchange: Exchange
    keep: Callable[[HttpResponse], None]
    """Called with a reply that may be cached, before its end is sent."""
    model: str = ""
    """The name in the ledger of the model that answers."""
    fault: str = ""
    """Why the provider has not answered so far."""
    refusal: str = ""
    """Why the provider rejected the request itself."""


class BrokenAnswer(Exception):  # noqa: N818
    """The answer broke after the benchmark had begun to read it."""


class NoAnswer(Exception):  # noqa: N818
    """The provider is unavailable; its last response goes to the benchmark."""

    def __init__(self, reason: str, response: HttpResponse) -> None:
        super().__init__(reason)
        self.response = response


class AnswerSource(Protocol):
    async def answer(self, call: ForwardedCall, trial_request: TrialRequest) -> None:
        """Answer on the exchange of the trial's request.

        Raises RequestRefused, Exhausted, AllowanceExceeded, Outage or NoAnswer before anything was sent, and
        BrokenAnswer afterwards.
        """
        ...


_TURNS = ("messages", "input", "contents")
_RULES = ("system", "instructions", "systemInstruction", "system_instruction")
_RULE_ROLES = ("system", "developer")


class EndpointModel(Record):
    """A model that answers requests of trials."""

    name: str
    """The name that the ledger shows."""
    spec: ModelSpec
    source: AnswerSource
    weight: float = 1.0

    @property
    def requested_name(self) -> str:
        """Return the name by which its provider knows it."""
        return self.spec.model or self.name

    @property
    def cache_name(self) -> str:
        """Return the name under which its replies are cached."""
        return f"{self.name} {self.spec.url}"


class ServedCall(Record):
    """A call, and the model that answers it."""

    model: EndpointModel
    call: ForwardedCall


def parse_served_call(request: Request, models: Sequence[EndpointModel]) -> ServedCall:
    """Parse the call in a request, for the model that answers it. Raises RequestRefused."""
    body = read_body(request)
    model = draw_model(body, models)
    return ServedCall(model, make_call(request, body, model.spec, model.requested_name))


def draw_model(body: dict[str, Any], models: Sequence[EndpointModel]) -> EndpointModel:
    """Draw the model for a conversation: the same for its later turns, other candidates and after a restart."""
    if len(models) == 1:
        return models[0]
    rng = random.Random(json.dumps(_opening(body), sort_keys=True))
    return rng.choices(models, [model.weight for model in models])[0]


def _opening(body: dict[str, Any]) -> list[Any]:
    """Find how a conversation begins: its rules, and its turns up to the first that is no rule."""
    turns = next((body[name] for name in _TURNS if body.get(name)), None)
    if isinstance(turns, list):
        first = next((at for at, turn in enumerate(turns) if not _is_rule(turn)), len(turns))
        turns = turns[: first + 1]
    return [*(body.get(name) for name in _RULES), turns]


def _is_rule(turn: Any) -> bool:
    return isinstance(turn, dict) and turn.get("role") in _RULE_ROLES


LARGEST_REPLY = 4 << 20
_ALL_REPLIES = 1 << 30


class Cache:
    """A folder of replies, shared by all trials; `when` is `auto`, `always` or `never`."""

    def __init__(self, folder: SafeFolder, when: str) -> None:
        self._folder = folder
        self._when = when
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._bytes: int | None = None

    def key(self, call: ForwardedCall, model: str) -> str | None:
        """Make the key of this model's reply to a call, or None when the reply is not cached."""
        if self._when == "never" or (self._when == "auto" and not call.repeatable):
            return None
        return hashlib.sha256(f"{model} {call.digest}".encode()).hexdigest()

    @contextlib.asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Hold equal requests back until the first of them is answered; the others then find its reply."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            yield

    def find(self, key: str) -> HttpResponse | None:
        try:
            head, _, body = self._file(key).read().partition(b"\n")
            fields = json.loads(head)
            headers = {"content-type": fields["content_type"], "x-loopty-cached": "true"}
            reply = HttpResponse(200, headers, body)
            # A file that a full disk cut short, or somebody edited, counts as missing.
            return reply if fields["sha256"] == hashlib.sha256(body).hexdigest() else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, key: str, reply: HttpResponse) -> None:
        """Keep a reply, whole or not at all. A full or read-only folder does not fail a trial."""
        head = {
            "content_type": reply.headers.get("content-type", ""),
            "sha256": hashlib.sha256(reply.body).hexdigest(),
        }
        content = json.dumps(head).encode() + b"\n" + reply.body
        with contextlib.suppress(OSError):
            if self._bytes is None:
                self._bytes = sum(self._folder.file(name).size for name in self._folder.names())
            if len(reply.body) > LARGEST_REPLY or self._bytes + len(content) > _ALL_REPLIES:
                return
            self._bytes += len(content)
            self._file(key).write(content)

    def _file(self, key: str) -> SafeFile:
        return self._folder.file(f"{key}.reply")
