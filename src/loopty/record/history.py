"""The history: the fold of the ledger, or what is true now, by the table of all families of events."""

from __future__ import annotations

import json
from collections.abc import Mapping

from loopty.domain.declared_types import cut_words, misfit
from loopty.domain.errors import Misuse
from loopty.kit import codec
from loopty.kit.records import field, replace
from loopty.record.agent_accounts import AGENT_ACCOUNTS
from loopty.record.calls import CALLS, REPLY_FORMS, ROLE_SHARES
from loopty.record.database import LEDGER_REMEDY, UNREADABLE, damaged
from loopty.record.directives import ACKNOWLEDGEMENTS, AUDIT_ANCHORS, DIRECTIVES, NOTES
from loopty.record.fold import Event, FoldState, Recorded
from loopty.record.node_table import NodeTable
from loopty.record.nodes import NODE_GATES, NODES, PROPOSALS, REMOVED_FILES, STORED_FILES
from loopty.record.run_record import RunPart
from loopty.record.run_rows import RunRows
from loopty.record.search_learning import DIRECTIONS, OPERATOR_CREDIT
from loopty.record.search_summary import FROZEN_POOLS, RUNGS, SEARCH_SUMMARY
from loopty.record.sessions import BUDGETS, RUNS, SESSIONS
from loopty.record.tickets import CLAIMS, TICKETS
from loopty.record.trials import COHORTS, TRIALS
from loopty.record.tunings import TUNINGS
from loopty.record.verdicts import CONFIRMATIONS, REVIEWS, VERDICTS
from loopty.record.workers import WORKERS

_MOST_NAMED = 20
_LONGEST_FAULT = 300


class UnreadableEvent(Event):
    """Stands for an event that cannot be read. It is never written."""

    kind: str
    fault: str


class Unreadable(RunPart):
    """The events that were set aside while this run was the newest.

    Each hides no other. They are kept with the newest run, because whose event it was cannot be read either.
    """

    faults: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with the first ones, by number."""
    count: int = 0


def set_aside(state: FoldState, recorded: Recorded, fault: str) -> None:
    """Note an event that cannot be read. Raises Misuse before the first run: then nothing can be shown."""
    run = state.run
    if run is None:
        raise damaged(f"event {recorded.number}")
    known = Unreadable.of(run)
    more = {str(recorded.number): cut_words(fault, _LONGEST_FAULT)} if known.count < _MOST_NAMED else {}
    state.put_run(run.with_part(replace(known, faults={**known.faults, **more}, count=known.count + 1)))


def unreadable_text(state: FoldState) -> str | None:
    """Tell which events could not be read, and what is wrong with them; None if all could."""
    found = [Unreadable.of(run) for run in state.runs.values()]
    if not (count := sum(each.count for each in found)):
        return None
    lines = [f"event {number} cannot be read ({fault})" for each in found for number, fault in each.faults.items()]
    return "; ".join([*lines, *([f"and {count - len(lines):,} more"] if count > len(lines) else [])])


def refuse_unreadable(state: FoldState) -> None:
    """Let no one add to a ledger with such an event. Raises Misuse.

    The event may have added a node, whose name and branch the next node would get again, or ended a trial or paid
    for a call, so that a budget would be spent twice. A person can see to that, a new run cannot.
    """
    if text := unreadable_text(state):
        raise Misuse(
            f"{text}: nothing is added to this ledger, because what that event did would be undone or done twice. "
            f"{LEDGER_REMEDY}. Until then it can be read"
        )


FAMILIES = (
    RUNS,
    SESSIONS,
    NODES,
    PROPOSALS,
    # before calls: it looks at the reply that is read
    REPLY_FORMS,
    # before calls, verdicts and trials: it looks at the reply that is read, and what changes
    OPERATOR_CREDIT,
    CALLS,
    COHORTS,
    # before verdicts: it looks at the verdict that changes
    AGENT_ACCOUNTS,
    # before verdicts: they elect among the nodes that audits left; before trials: it looks at the one that ends
    AUDIT_ANCHORS,
    VERDICTS,
    RUNGS,
    # these three before trials: they look at the trial that ends
    REVIEWS,
    TUNINGS,
    CONFIRMATIONS,
    TRIALS,
    NODE_GATES,
    DIRECTIONS,
    DIRECTIVES,
    BUDGETS,
    ROLE_SHARES,
    ACKNOWLEDGEMENTS,
    NOTES,
    CLAIMS,
    TICKETS,
    # after verdicts: it looks at the node with its verdict
    SEARCH_SUMMARY,
    REMOVED_FILES,
    STORED_FILES,
    FROZEN_POOLS,
    WORKERS,
)
"""Every family of events. Folds of one event run in this order."""


def _kind(event: type[Event]) -> str:
    """Return the name under which events of this type are stored: `node-added` for NodeAdded."""
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in event.__name__)[1:]


_EVENTS = {_kind(event): event for family in FAMILIES for event in family.events}
_KINDS = {event: kind for kind, event in _EVENTS.items()}
_FOLDS = {event: tuple(family.folds[event] for family in FAMILIES if event in family.folds) for event in _KINDS}


def encode_event(event: Event) -> tuple[str, str]:
    """Return the kind and the body of an event, as the ledger stores them."""
    return _KINDS[type(event)], codec.text(event)


def decode_event(kind: str, body: str) -> Event:
    if kind not in _EVENTS:
        raise Misuse(f"the ledger holds '{kind}' events, which this loopty does not know: update loopty")
    return codec.build(_EVENTS[kind], json.loads(body))


def read_event(number: int, at: object, kind: object, body: object) -> Recorded:
    """Read the event in this row of a ledger; one that cannot be read says so itself, and hides no other."""
    is_time = type(at) in (int, float)
    try:
        event = decode_event(str(kind), body if isinstance(body, str) else "")
        fault = misfit(event) if is_time else "its time is no number"
    except (*UNREADABLE, Misuse) as error:
        fault = f"{type(error).__name__}: {error}" if type(error) in UNREADABLE else str(error)
    if fault is not None:
        event = UnreadableEvent(str(kind), fault)
    return Recorded(number, float(at) if is_time else 0.0, event)  # type: ignore[arg-type]


# Constant work per event.
#
# The fold is kept in tables, which are written with the events: a reader opens a long history without replaying
# it, and reads only the nodes that it asks for. The events stay the truth: `History` folded from all events equals
# `History` opened from the tables, as tests with random histories compare. Tables of an older fold are made again.


FOLD_VERSION = 28
"""Increases when the fold changes, so that a ledger knows that its tables come from an older one."""
_UNKNOWN = -1


class History(FoldState):
    """Every run and node; grows by `apply`."""

    def __init__(self, table: NodeTable, rows: RunRows) -> None:
        super().__init__(table)
        self._rows = rows

    def read_tables(self, number: int) -> None:
        """Go on from the tables, which are at this event. Nodes are read when they are asked for."""
        self.start_over()  # where reading breaks off, half of a step is done
        self.runs.update((run.number, run) for run in self._rows.read())
        self.count = self._table.count()
        self.number = number

    def start_over(self) -> None:
        """Forget everything: it holds what was never written, or is behind."""
        self.number, self.count = _UNKNOWN, 0
        self.runs.clear()
        self._forget_decoded()
        self._unsaved.clear()
        self._changed_runs.clear()

    def save(self) -> None:
        """Write all changes to the tables, inside a write."""
        if self._unsaved:
            self._save_nodes()
        for number in self._changed_runs:
            self._rows.save(self.runs[number])
        self._changed_runs.clear()

    def apply_read(self, recorded: Recorded) -> None:
        """Fold in an event that the ledger holds: one that cannot be is set aside, and hides no other.

        What its first folds did before one failed stays; nothing is recorded after such an event.
        """
        if type(recorded.event) is UnreadableEvent:
            self.number = recorded.number
            set_aside(self, recorded, recorded.event.fault)
            return
        try:
            self.apply(recorded)
        except (*UNREADABLE, Misuse) as error:
            set_aside(self, recorded, f"it does not fit the events before it: {error}")

    def apply(self, recorded: Recorded) -> None:
        """Fold one event in: each family that subscribes to its type, in the order of the table."""
        self.number = recorded.number
        for fold in _FOLDS[type(recorded.event)]:
            fold(self, recorded.event, recorded.at)
