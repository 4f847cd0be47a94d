"""The record as the dashboard keeps it: opened once, folded by run, brought up to date, never rescanned."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import CACHED_CALL
from loopty.domain.trial import Outcome, Pool
from loopty.kit.records import Record, field
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.fold import Recorded
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.nodes import NodeAdded, ProposalRefused
from loopty.record.run_record import Run
from loopty.record.trials import Cohorts, TrialEnded, TrialStarted
from loopty.session.reader import CampaignReader
from loopty.show.comparisons import run_metric
from loopty.show.rated_nodes import rate_whole
from loopty.web.answers import change_name
from loopty.web.columns import KEPT, NodeColumns, counts_by_mark

_DURATIONS = 999
"""How many of the newest calls a median is made of."""


class CallSum(Struct):
    """What some calls used."""

    calls: int = 0
    cached: int = 0
    failed: int = 0
    refused: int = 0
    tokens: int = 0
    money_usd: float = 0.0
    unpriced: int = 0
    """Calls that used tokens and have no price."""
    seconds: float = 0.0
    durations: deque[float] = field(default_factory=lambda: deque(maxlen=_DURATIONS))
    roles: set[str] = field(default_factory=set)
    model: str = ""
    """The model of the newest call."""
    last_at: float = 0.0

    @property
    def median_seconds(self) -> float | None:
        ordered = sorted(self.durations)
        return ordered[len(ordered) // 2] if ordered else None


class CallFold:
    """The calls of one run. Constant work per event, and memory that grows only with what charts draw."""

    def __init__(self, run: int) -> None:
        self._run = run
        self.by_model: defaultdict[str, CallSum] = defaultdict(CallSum)
        self.by_role: defaultdict[str, CallSum] = defaultdict(CallSum)
        self.by_operator: defaultdict[str, CallSum] = defaultdict(CallSum)
        self.refusals: Counter[str] = Counter()
        self.refused_by_operator: Counter[str] = Counter()
        self.open: dict[str, tuple[CallReserved, float]] = {}
        """Calls in flight, with when they began."""
        self.times = array("d")
        self.money = array("d")
        self.tokens = array("d")
        """What was spent up to each time."""
        self.lanes: deque[tuple[float, float, str]] = deque(maxlen=4_000)
        """When calls were made and answered, with their operator; newest last."""

    def apply(self, recorded: Recorded) -> None:
        event = recorded.event
        if isinstance(event, CallReserved) and event.run == self._run:
            self._reserve(event, recorded.at)
        elif isinstance(event, CallSettled) and event.call in self.open:
            self._settle(event, recorded.at)
        elif isinstance(event, ProposalRefused) and event.run == self._run:
            self.refusals[str(event.objection)] += 1
            self.refused_by_operator[event.operator] += 1
            if event.operator in self.by_operator:
                self.by_operator[event.operator].refused += 1
                if model := self.by_operator[event.operator].model:
                    self.by_model[model].refused += 1

    def _sums(self, event: CallReserved) -> tuple[CallSum, CallSum, CallSum]:
        return self.by_model[event.model], self.by_role[event.role], self.by_operator[event.operator]

    def _reserve(self, event: CallReserved, at: float) -> None:
        for found in self._sums(event):
            found.roles.add(event.role)
            found.model, found.last_at = event.model, at
            if event.operator == CACHED_CALL:
                found.cached += 1
        self.open[event.call] = event, at

    def _settle(self, event: CallSettled, at: float) -> None:
        reserved, since = self.open.pop(event.call)
        seconds = max(at - since, 0.0)
        for found in self._sums(reserved):
            found.calls += 1
            found.tokens += event.tokens
            found.money_usd += event.money_usd
            found.failed += bool(event.failure)
            found.unpriced += bool(event.tokens and not event.money_usd)
            found.last_at = at
            if not event.lost:
                found.seconds += seconds
                found.durations.append(seconds)
        self.lanes.append((since, at, reserved.operator))
        self.times.append(at)
        self.money.append((self.money[-1] if self.money else 0.0) + event.money_usd)
        self.tokens.append((self.tokens[-1] if self.tokens else 0.0) + event.tokens)

    def spent_at(self, at: float) -> tuple[float, float]:
        """Return the money and the tokens that were spent up to this time."""
        place = bisect_right(self.times, at) - 1
        return (self.money[place], self.tokens[place]) if place >= 0 else (0.0, 0.0)

    @property
    def costs_money(self) -> bool:
        return bool(self.money) and self.money[-1] > 0

    def cost_at(self, at: float) -> float:
        """Return the place on the cost axis: money if models have a price, else tokens."""
        money, tokens = self.spent_at(at)
        return money if self.costs_money else tokens


_MOST_CHANGES = 4_000
_NODE_FIELDS = ("node", "subject", "incumbent", "against", "cause")


class RunFold:
    """The columns and sums of one run, up to the event `number`."""

    def __init__(self, history: History, number: int) -> None:
        self.run_number = number
        self.number = history.number
        self.columns = NodeColumns()
        self.calls = CallFold(number)
        self.calls_number = 0
        """The event up to which calls are folded."""
        self.trial_lanes: deque[tuple[float, float, str]] = deque(maxlen=4_000)
        """When trials began and ended, with the operator of their node; newest last."""
        self._started: dict[tuple[str, int], tuple[float, Pool]] = {}
        self.replays: dict[NodeId, list[tuple[float, Outcome]]] = {}
        """What nodes gave when they were measured again, since this server began."""
        self.changes: deque[tuple[int, int]] = deque(maxlen=_MOST_CHANGES)
        """Which event changed which place; newest last."""
        self.basis = _basis(history, number)
        """What all scores rest on: when it changes, everything is folded anew."""
        self.columns.fill(history, number)

    def read_calls(self, events: Iterator[Recorded], count: int) -> bool:
        """Fold some more events about calls; False when there are no more."""
        for _ in range(count):
            recorded = next(events, None)
            if recorded is None:
                return False
            self.calls.apply(recorded)
            self.calls_number = recorded.number
        return True

    def apply(self, history: History, events: Sequence[Recorded]) -> list[int]:
        """Take new events in, after the history; returns the places that changed."""
        changed: dict[str, None] = {}
        for recorded in events:
            if recorded.number > self.calls_number:
                self.calls.apply(recorded)
            self._note_trial(history, recorded)
            for node in _nodes_of(recorded):
                if node.run == self.run_number:
                    changed[node] = None
        self.number = history.number
        places = [self._put(history, history[NodeId(node)]) for node in changed]
        self.changes.extend((self.number, place) for place in places)
        return places

    def _put(self, history: History, node: Node) -> int:
        place = self.columns.put(rate_whole(history, node, Cohorts.of(history.runs[self.run_number]).fingerprint))
        parent = history.handle(node.id.parent) if node.id.parent else 0
        seconds = node.outcome.seconds if node.outcome else 0.0
        summary = change_name(history, node)
        self.columns.put_label(place, parent, node.added_at, seconds, node.operator, summary)
        return place

    def _note_trial(self, history: History, recorded: Recorded) -> None:
        event = recorded.event
        if isinstance(event, TrialStarted) and event.node.run == self.run_number:
            self._started[event.node, event.number] = recorded.at, event.pool
        elif isinstance(event, TrialEnded) and event.node.run == self.run_number:
            unseen = recorded.at - event.outcome.seconds, Pool.ATTEMPT
            since, pool = self._started.pop((event.node, event.number), unseen)
            if pool is Pool.REPLAY:
                self.replays.setdefault(event.node, []).append((recorded.at, event.outcome))
            self.trial_lanes.append((since, recorded.at, history[event.node].operator))

    def changes_since(self, number: int) -> list[int] | None:
        """List the places that changed after this event; None if that is not known any more."""
        if len(self.changes) == _MOST_CHANGES and self.changes[0][0] > number:
            return None
        return list(dict.fromkeys(place for event, place in self.changes if event > number))

    def counts(self) -> dict[str, int]:
        return counts_by_mark(self.columns.counts)

    def kept_places(self) -> list[int]:
        return self.columns.places_with(KEPT)


def _nodes_of(recorded: Recorded) -> Iterator[NodeId]:
    event = recorded.event
    for name in _NODE_FIELDS:
        node = getattr(event, name, None)
        if isinstance(node, NodeId):
            yield node
    if isinstance(event, NodeAdded) and event.node.parent:
        yield event.node.parent


def _basis(history: History, run: int) -> tuple[str, str]:
    record = history.runs[run]
    return Cohorts.of(record).fingerprint, run_metric(history, record).name


def needs_new_fold(fold: RunFold, history: History) -> bool:
    """Say whether all scores have another basis now: another machine, or another metric."""
    return fold.basis != _basis(history, fold.run_number)


# Everything here runs in one thread, because a ledger belongs to one.


_MOST_FOLDS = 3
"""Runs that are kept folded."""
_MOST_EVENTS = 20_000
"""With more new events than this, the run is folded anew."""
_CALLS_AT_ONCE = 2_000


class FoldProgress(Record):
    """How far the record is read."""

    what: str
    done: int
    total: int

    @property
    def is_ready(self) -> bool:
        return not self.what


READY = FoldProgress("", 0, 0)


class RecordFeed:
    """The newest state of one repository's record."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self.clock = clock
        self.reader: CampaignReader | None = None
        self.opening = READY
        """How far a record of an older version is folded anew. Other threads read it."""
        self._folds: dict[int, RunFold] = {}
        self._call_events: dict[int, Iterator[Recorded]] = {}

    @property
    def history(self) -> History:
        if self.reader is None:
            raise Misuse("nothing has run here yet: start with `loopty run`")
        return self.reader.record.history

    @property
    def number(self) -> int:
        """Return the last event that is known; 0 before the first."""
        return self.history.number if self.reader else 0

    def open(self) -> bool:
        """Open the record where there is one."""
        if self.reader is None:
            reader = CampaignReader(self._path)
            try:
                reader.record.read_history(self._note_progress)
            except Misuse as fault:
                if "nothing has run" not in str(fault):
                    raise
                return False
            self.reader, self.opening = reader, READY
        return True

    def _note_progress(self, done: int, total: int) -> None:
        self.opening = FoldProgress("folding the record for this version", done, total)

    def run(self, number: int | None = None) -> Run:
        """Return the run with this number, or the newest. Raises Misuse if there is none."""
        runs = self.history.runs
        if number is not None and number not in runs:
            raise Misuse(f"there is no run {number}: the runs are 1 to {max(runs)}")
        return runs[max(runs) if number is None else number]

    def fold(self, number: int | None = None) -> RunFold:
        """Return the fold of a run; the first time, it begins with the facts of its nodes."""
        run = self.run(number).number
        if run not in self._folds:
            while len(self._folds) >= _MOST_FOLDS:
                self._forget(min(self._folds))
            self._folds[run] = RunFold(self.history, run)
            self._call_events[run] = self._ledger.read_calls()
        return self._folds[run]

    def whole_fold(self, number: int | None = None) -> RunFold:
        """Return the fold with all its calls."""
        fold = self.fold(number)
        while self.read_more(fold.run_number):
            pass
        return fold

    def read_more(self, number: int | None = None) -> bool:
        """Read some more model calls of a run; False when all are known. Between two calls others are answered."""
        fold = self.fold(number)
        events = self._call_events.get(fold.run_number)
        if events is not None and not fold.read_calls(events, _CALLS_AT_ONCE):
            del self._call_events[fold.run_number]
            fold.calls_number = max(fold.calls_number, fold.number)
        return fold.run_number in self._call_events

    def progress(self, number: int | None = None) -> FoldProgress:
        fold = self.fold(number)
        if fold.run_number not in self._call_events:
            return READY
        return FoldProgress("reading model calls", fold.calls_number, fold.number)

    def update(self) -> dict[int, list[int]]:
        """Take in what was recorded since: the places that changed, by run."""
        if not self.open():
            return {}
        before, ledger = self.number, self._ledger
        ledger.update(self.history)
        if self.number == before:
            return {}
        changed: dict[int, list[int]] = {}
        events: list[Recorded] | None = None
        if self.number - before <= _MOST_EVENTS:
            events = [recorded for recorded in ledger.read(before) if recorded.number <= self.number]
        for run, fold in list(self._folds.items()):
            if events is None or needs_new_fold(fold, self.history):
                self._forget(run)
            else:
                changed[run] = fold.apply(self.history, events)
        return changed

    def _forget(self, run: int) -> None:
        self._folds.pop(run, None)
        self._call_events.pop(run, None)

    @property
    def _ledger(self) -> Any:
        assert self.reader is not None
        return self.reader.record.ledger
