"""Where a provider serves its models, which APIs it speaks there, and how it wants the key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field

from loopty.domain.model import ModelSpec
from loopty.models.endpoint.apis import TOLD_BY, Api
from loopty.models.endpoint.forwarded_call import Call
from loopty.models.endpoint.http_exchange import Refused, Request
from loopty.models.hosts import ADDRESSES

_OPENAI = (Api.CHAT, Api.RESPONSES, Api.EMBEDDINGS)
_LIKE_OPENAI = ADDRESSES.keys() - {"anthropic", "google"}
_SHOWN = ("content-type", "retry-after", "request-id", "x-request-id")
_VERSION = "/v1"


@dataclass(frozen=True, slots=True)
class Place:
    """An address and the key to it; `bare` when the version is no part of the address."""

    address: str
    key: str | None = field(repr=False)
    bare: bool = True


@dataclass(frozen=True, slots=True)
class Upstream:
    """A provider that is spoken to over HTTP."""

    model: str
    """As the ledger shows it."""
    apis: Collection[Api]
    place: Callable[[], Awaitable[Place]]
    """Raises ModelFault where it takes more than a look, and fails."""
    key_header: str = "authorization"

    def refuse_unspoken(self, call: Call) -> None:
        if call.api not in self.apis:
            raise Refused(
                400,
                "invalid_request_error",
                f"the user role's model, {self.model}, is not asked at {call.path}: use {', '.join(self.apis)}",
            )

    def url(self, place: Place, call: Call) -> str:
        path = call.path if place.bare else call.path.removeprefix(_VERSION)
        return place.address.rstrip("/") + path + (f"?{call.query}" if call.query else "")

    def headers(self, place: Place, request: Request) -> dict[str, str]:
        """What goes along: nothing of the benchmark's but what the API is told by."""
        passed = {name: request.headers[name] for name in TOLD_BY if _plain(request.headers.get(name, ""))}
        if Api.MESSAGES in self.apis:
            passed.setdefault("anthropic-version", "2023-06-01")
        passed["content-type"] = "application/json"
        if place.key is not None:
            passed[self.key_header] = f"Bearer {place.key}" if self.key_header == "authorization" else place.key
        return passed


def upstream(model: str, stated: ModelSpec, key: str | None) -> Upstream | None:
    """How the provider is spoken to; None for those that loopty does not know how to forward to."""

    def at(bare: bool) -> Callable[[], Awaitable[Place]]:
        async def place() -> Place:
            return Place(stated.url or ADDRESSES[stated.provider], key, bare)

        return place

    if stated.provider == "anthropic":
        return Upstream(model, (Api.MESSAGES,), at(bare=True), "x-api-key")
    if stated.provider == "google":
        return Upstream(model, (Api.GENERATE,), at(bare=True), "x-goog-api-key")
    if stated.provider in _LIKE_OPENAI:
        return Upstream(model, _OPENAI, at(bare=False))
    return None


def on_this_machine(model: str, served: Callable[[], Awaitable[tuple[int, str]]]) -> Upstream:
    """A server of ours on loopback: `served` gives its port and its key, and starts it if need be."""

    async def place() -> Place:
        port, key = await served()
        return Place(f"http://127.0.0.1:{port}", key)

    return Upstream(model, (Api.CHAT, Api.RESPONSES, Api.MESSAGES), place)


def passed_on(headers: Mapping[str, str], key: str | None) -> dict[str, str]:
    """What the benchmark sees of a provider's headers."""
    found = {name: headers.get(name, "") for name in _SHOWN}
    return {name: value for name, value in found.items() if _plain(value) and not (key and key in value)}


def _plain(value: str) -> bool:
    """Whether a header has this and can be sent on: some take more bytes than others send."""
    return bool(value) and value.isascii() and value.isprintable()
