"""A vendor's server on loopback, and the tables of a task file that name it.

    with vendor(number(7), "no change at all") as server:
        place.write("loopty.toml", CODE_TASK.format(attempts=1) + evolver(server))

A reply is a text, a function from the words of a request to a text, or a behaviour of the scripted server. Texts
are streamed when the request asks for a stream.
"""

import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ..models import vendor_replies as wire
from ..models.server import Behaviour, Connection, ScriptedServer, answer, stream
from ..models.vendor_replies import Counts
from .conftest import Place

Reply = str | Callable[[str], str]

COUNTS = Counts(input=100, output=20, cached=0, reasoning=0)
_WIRES = {
    "openai": (wire.openai_reply, wire.openai_events),
    "anthropic": (wire.anthropic_reply, wire.anthropic_events),
    "google": (wire.google_reply, wire.google_events),
}


def vendor(*replies: Reply | Behaviour, kind: str = "openai", counts: Counts = COUNTS) -> ScriptedServer:
    """A server that answers each request with the next reply, and repeats the last one."""
    behaviours = (reply if _is_behaviour(reply) else text_behaviour(reply, kind, counts) for reply in replies)
    return ScriptedServer(*behaviours)


def text_behaviour(reply: Reply, kind: str = "openai", counts: Counts = COUNTS) -> Behaviour:
    whole, pieces = _WIRES[kind]

    def behave(connection: Connection) -> None:
        body = connection.request.body
        text = reply(words(body)) if callable(reply) else reply
        if body.get("stream") or ":stream" in connection.request.path:
            middle = len(text) // 2
            stream(pieces((text[:middle], text[middle:]), counts=counts))(connection)
        else:
            answer(whole(text, counts=counts))(connection)

    return behave


def words(body: Any) -> str:
    """Every text in a request."""
    return "\n".join(_texts(body))


def number(*values: float | str) -> str:
    """A reply with one proposal for each value, which writes it to src/x.txt."""
    return "\n".join(
        f"=== PROPOSAL {position}: x is {value} ===\nsrc/x.txt\n```\n{value}\n```\n=== END ==="
        for position, value in enumerate(values, 1)
    )


def evolver(server: ScriptedServer, kind: str = "llm-code", **keys: Any) -> str:
    """The tables for a model on this server that makes the proposals: of code, each a diff of the best node."""
    proposer = table("proposer", kind=kind, **({"operators": ["diff"]} if kind == "llm-code" else {}))
    return model(server, **keys) + table("roles.evolver", model="near") + proposer


def model(server: ScriptedServer, name: str = "near", **keys: Any) -> str:
    provider = keys.get("provider", "openai")
    url = f"{server.url}/v1" if provider == "openai" else server.url
    settings = {"provider": provider, "model": "m-1", "url": url, "retries": 0, "outage_seconds": 0.0, **keys}
    return table(f"models.{name}", **settings)


def table(name: str, **keys: Any) -> str:
    """A table of a task file."""
    return "\n".join((f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items()), ""))


def permit(monkeypatch: pytest.MonkeyPatch, place: Place, server: ScriptedServer, variable: str) -> None:
    """Allow, in the user's config file, that this variable is sent to the server."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place.top.parent / "config"))
    place.write("../config/loopty/config.toml", table("keys", **{variable: server.url}))


def _texts(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict | list):
        for inner in part.values() if isinstance(part, dict) else part:
            yield from _texts(inner)


def _is_behaviour(reply: Any) -> bool:
    return callable(reply) and "connection" in inspect.signature(reply).parameters
