"""The table of event families, each imported for the first of its events, and how events are stored."""

from __future__ import annotations

import functools
import json
from importlib import import_module

from loopty.domain.declared_types import misfit
from loopty.domain.errors import Misuse
from loopty.kit import codec
from loopty.record.event import Event, Recorded
from loopty.record.family import Family, Fold
from loopty.record.pages import UNREADABLE
from loopty.record.unreadable import UnreadableEvent

_TABLE = {
    "runs": ("run-started", ""),
    "sessions": (
        "session-started session-ended session-stalled run-paused run-resumed stop-requested",
        "node-added proposal-refused trial-started trial-ended call-reserved call-settled",
    ),
    "nodes": ("node-added node-sealed draft-dropped", ""),
    "proposals": ("proposal-refused", ""),
    # before calls: it looks at the reply that is read
    "reply_forms": ("", "node-added proposal-refused"),
    # before calls, verdicts and trials: it looks at the reply that is read, and what changes
    "operator_credit": (
        "",
        "node-added proposal-refused trial-ended node-judged verdict-withdrawn run-rebaselined",
    ),
    # as operator_credit, after it
    "search_learning": ("search-moved", "node-added proposal-refused node-judged"),
    "calls": ("call-reserved call-settled", "node-added proposal-refused"),
    "cohorts": ("machine-seen run-rebaselined cohort-opened", ""),
    # before verdicts: it looks at the verdict that changes
    "agent_accounts": (
        "agent-part-ended agent-search-stalled agent-benched",
        "node-added proposal-refused node-judged verdict-withdrawn",
    ),
    "verdicts": ("node-judged verdict-withdrawn node-reopened node-restored", "run-rebaselined cohort-opened"),
    "rungs": ("rung-changed", "node-added proposal-refused node-judged"),
    # these four before trials: they look at the trial that ends
    "reviews": ("", "trial-ended node-judged"),
    "tunings": ("tuning-started tune-point-chosen node-tuned", "trial-ended node-judged"),
    "confirmations": ("", "trial-ended"),
    "audit_anchors": ("audit-concluded", "trial-ended"),
    "trials": ("trial-started split-shown trial-ended", ""),
    "node_gates": ("gate-added", ""),
    "directives": ("directive-set", ""),
    "budgets": ("budget-changed", ""),
    "role_shares": ("role-shares-changed", ""),
    "acknowledgements": ("directive-seen", ""),
    "notes": ("note-added", ""),
    "claims": ("", "node-added draft-dropped node-judged verdict-withdrawn"),
    "tickets": ("ticket-opened ticket-ended", ""),
    # after verdicts: it looks at the node with its verdict
    "search_summary": ("", "node-judged"),
    "removed_files": ("files-removed", ""),
    "stored_files": ("files-stored", ""),
    "frozen_pools": ("pool-frozen", ""),
    "workers": (
        "worker-joined worker-left worker-drifted trial-leased lease-lost cluster-seen",
        "trial-ended session-ended",
    ),
}
"""The files of this room with a FAMILY: the kinds of its own events, and those of other families that it folds.

Folds of one event run in this order.
"""

_FILES = {kind: file for file, (own, _) in _TABLE.items() for kind in own.split()}
"""Where the event of each kind is defined."""
_KINDS: dict[type[Event], str] = {}
_FOLDS: dict[type[Event], tuple[Fold, ...]] = {}
"""Of the events so far."""


def all_families() -> dict[str, Family]:
    """Every family, by its file."""
    return {file: _family(file) for file in _TABLE}


def folds(event: type[Event]) -> tuple[Fold, ...]:
    """What the families do at an event of this type, in the order of the table."""
    if event not in _FOLDS:
        kind = _kind(event)
        families = (_family(file) for file, (own, others) in _TABLE.items() if kind in f"{own} {others}".split())
        _FOLDS[event] = tuple(family.folds[event] for family in families if event in family.folds)
    return _FOLDS[event]


def encode_event(event: Event) -> tuple[str, str]:
    """The kind and the body of an event, as the ledger stores them."""
    return _kind(type(event)), codec.text(event)


def decode_event(kind: str, body: str) -> Event:
    if kind not in _FILES:
        raise Misuse(f"the ledger holds '{kind}' events, which this loopty does not know: update loopty")
    return codec.build(_event(kind), json.loads(body))


def read_event(number: int, at: object, kind: object, body: object) -> Recorded:
    """The event in this row of a ledger; one that cannot be read says so itself, and hides no other."""
    is_time = type(at) in (int, float)
    try:
        event = decode_event(str(kind), body if isinstance(body, str) else "")
        fault = misfit(event) if is_time else "its time is no number"
    except (*UNREADABLE, Misuse) as error:
        fault = f"{type(error).__name__}: {error}" if type(error) in UNREADABLE else str(error)
    if fault is not None:
        event = UnreadableEvent(str(kind), fault)
    return Recorded(number, float(at) if is_time else 0.0, event)  # type: ignore[arg-type]


def _family(file: str) -> Family:
    family: Family = import_module(f"loopty.record.{file}").FAMILY
    return family


def _kind(event: type[Event]) -> str:
    """The name under which events of this type are stored: `node-added` for NodeAdded."""
    if event not in _KINDS:
        _KINDS[event] = "".join(f"-{c.lower()}" if c.isupper() else c for c in event.__name__)[1:]
    return _KINDS[event]


@functools.cache
def _event(kind: str) -> type[Event]:
    """The type of the events of this kind."""
    return next(event for event in _family(_FILES[kind]).events if _kind(event) == kind)
