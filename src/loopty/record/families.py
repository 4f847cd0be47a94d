"""The table of event families, and how their events are stored."""

from __future__ import annotations

import json
import re
from importlib import import_module

from loopty.domain.errors import Misuse
from loopty.kit import codec
from loopty.record.event import Event
from loopty.record.family import Family, Fold

_MODULES = (
    "runs",
    "sessions",
    "nodes",
    "proposals",
    "reply_forms",  # before calls: it looks at the reply that is read
    "operator_credit",  # before calls, verdicts and trials: it looks at the reply that is read, and what changes
    "search_learning",  # as operator_credit, after it
    "calls",
    "cohorts",
    "agent_accounts",  # before verdicts: it looks at the verdict that changes
    "verdicts",
    "rungs",
    "reviews",  # before trials: it looks at the trial that ends
    "tunings",  # before trials: it looks at the trial that ends
    "confirmations",  # before trials: it looks at the trial that ends
    "audit_anchors",  # before trials: it looks at the trial that ends
    "trials",
    "node_gates",
    "directives",
    "budgets",
    "role_shares",
    "acknowledgements",
    "notes",
    "claims",
    "tickets",
    "search_summary",  # after verdicts: it looks at the node with its verdict
    "removed_files",
    "stored_files",
    "frozen_pools",
    "workers",
)
"""The files of this room with a FAMILY. Folds of one event run in this order."""

FAMILIES: tuple[Family, ...] = tuple(import_module(f"loopty.record.{name}").FAMILY for name in _MODULES)

_KINDS: dict[type[Event], str] = {
    cls: re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower() for family in FAMILIES for cls in family.events
}
_EVENTS = {kind: cls for cls, kind in _KINDS.items()}

FOLDS: dict[type[Event], tuple[Fold, ...]] = {
    cls: tuple(family.folds[cls] for family in FAMILIES if cls in family.folds) for cls in _KINDS
}


def prepare_events() -> None:
    """Work out how events are read and written: for a process that other processes are forked from."""
    for cls in _KINDS:
        codec.prepare(cls)


def encode_event(event: Event) -> tuple[str, str]:
    """The kind and the body of an event, as the ledger stores them."""
    return _KINDS[type(event)], codec.text(event)


def decode_event(kind: str, body: str) -> Event:
    if kind not in _EVENTS:
        raise Misuse(f"the ledger holds '{kind}' events, which this loopty does not know: update loopty")
    return codec.build(_EVENTS[kind], json.loads(body))
