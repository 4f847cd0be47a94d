"""The table of event families, and how their events are stored."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from loopty.domain.errors import Misuse
from loopty.kit import codec
from loopty.kit.replace import replace
from loopty.record.event import Event
from loopty.record.family import Family, Fold
from loopty.record.run_record import Run

_MODULES = (
    "runs",
    "sessions",
    "nodes",
    "proposals",
    "calls",
    "cohorts",
    "verdicts",
    "rungs",
    "reviews",  # before trials: it looks at the trial that ends
    "trials",
    "node_gates",
    "directives",
)
"""The files of this room with a FAMILY. Folds of one event run in this order."""

FAMILIES: tuple[Family, ...] = tuple(import_module(f"loopty.record.{name}").FAMILY for name in _MODULES)

_KINDS: dict[type[Event], str] = {
    cls: re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower() for family in FAMILIES for cls in family.events
}
_EVENTS = {kind: cls for cls, kind in _KINDS.items()}
_RUN_PARTS = {part.__name__: part for family in FAMILIES for part in family.run_parts}
_POOL_PARTS = {part.__name__: part for family in FAMILIES for part in family.pool_parts}

FOLDS: dict[type[Event], tuple[Fold, ...]] = {
    cls: tuple(family.folds[cls] for family in FAMILIES if cls in family.folds) for cls in _KINDS
}


def encode_event(event: Event) -> tuple[str, str]:
    """The kind and the body of an event, as the ledger stores them."""
    return _KINDS[type(event)], codec.text(event)


def decode_event(kind: str, body: str) -> Event:
    if kind not in _EVENTS:
        raise Misuse(f"the ledger holds '{kind}' events, which this loopty does not know: update loopty")
    return codec.build(_EVENTS[kind], json.loads(body))


def decode_run(body: str) -> Run:
    """The run of a saved page. Parts of unknown families belong to a newer loopty and are ignored."""
    run = codec.build(Run, json.loads(body))
    pools = {pool: _decode_parts(parts, _POOL_PARTS) for pool, parts in run.pools.items()}
    return replace(run, parts=_decode_parts(run.parts, _RUN_PARTS), pools=pools)


def _decode_parts(parts: Mapping[str, Any], known: Mapping[str, type[Any]]) -> dict[str, Any]:
    return {name: codec.build(known[name], body) for name, body in parts.items() if name in known}
