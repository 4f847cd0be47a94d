"""One run as the dashboard keeps it: columns of nodes and sums of calls, which new events change."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence

from loopty.dashboard.call_fold import CallFold
from loopty.dashboard.marks import KEPT, counts_by_mark
from loopty.dashboard.node_columns import NodeColumns
from loopty.domain.ids import NodeId
from loopty.record.cohorts import Cohorts
from loopty.record.event import Recorded
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.nodes import NodeAdded
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.views.comparable import run_metric
from loopty.views.rated_nodes import rate_whole, rated_blocks

_SLICE = 1_000
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
        self._started: dict[tuple[str, int], float] = {}
        self.changes: deque[tuple[int, int]] = deque(maxlen=_MOST_CHANGES)
        """Which event changed which place; newest last."""
        self.basis = _basis(history, number)
        """What all scores rest on: when it changes, everything is folded anew."""
        self.columns.fill(rated_blocks(history, number))

    @property
    def is_whole(self) -> bool:
        """Whether details of all nodes are known."""
        return self.columns.detailed >= len(self.columns)

    def read_details(self, history: History, count: int = _SLICE) -> None:
        """Read the pages of some more nodes, the oldest first."""
        columns = self.columns
        start = columns.detailed
        stop = min(start + count, len(columns))
        ids = columns.ids(history, range(start, stop))
        for place in range(start, stop):
            if place in ids:
                columns.put_details(place, json.loads(history.page(ids[place])))
        columns.detailed = stop

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
        if place <= self.columns.detailed:
            self.columns.put_details(place, json.loads(history.page(node.id)))
            self.columns.detailed = max(self.columns.detailed, place + 1)
        return place

    def _note_trial(self, history: History, recorded: Recorded) -> None:
        event = recorded.event
        if isinstance(event, TrialStarted) and event.node.run == self.run_number:
            self._started[event.node, event.number] = recorded.at
        elif isinstance(event, TrialEnded) and event.node.run == self.run_number:
            since = self._started.pop((event.node, event.number), recorded.at - event.outcome.seconds)
            self.trial_lanes.append((since, recorded.at, history[event.node].operator))

    def changes_since(self, number: int) -> list[int] | None:
        """The places that changed after this event; None where that is not known any more."""
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
    """Whether the scores of all nodes have another basis now: another machine, or another metric."""
    return fold.basis != _basis(history, fold.run_number)
