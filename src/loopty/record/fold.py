"""Events, the state that they fold to, and families: what each keeps of a run, and how events change it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId, handle_name
from loopty.domain.objective import Metric, Objective, score_metric
from loopty.domain.trial import Outcome, Pool
from loopty.kit import codec
from loopty.kit.records import Record, field
from loopty.record.database import UNREADABLE, damaged
from loopty.record.node_record import Node
from loopty.record.node_table import LONGEST_SUMMARY, NodeFacts, NodeLabel, NodeRow, NodeTable, PoolNodes, basis
from loopty.record.run_record import Run


class Event(Record):
    """The base of all events. Each family (a file of this room) defines its own as frozen dataclasses.

    To change an event, add fields with defaults or define a new event. Decoding ignores unknown fields, so an
    older loopty reads a newer ledger as far as it can.
    """


class Recorded(Record):
    """An event with its number in the ledger. `at` is in seconds since the epoch."""

    number: int
    at: float
    event: Event


_MOST_DECODED = 500_000
"""Characters of the nodes that are kept decoded; with more, all are read again when they are asked for.

Decoded, a node takes some nine times as much. A process that drives a run has the same memory after any number.
"""


class FoldState:
    """Every run and node as the events so far leave them. Families read it and put new records into it."""

    def __init__(self, table: NodeTable) -> None:
        self.number = 0
        """The number of the last event folded in."""
        self.runs: dict[int, Run] = {}
        self.count = 0
        """How many nodes all runs have. The table may have more: another process may have added some since."""
        self._table = table
        self._unsaved: dict[NodeId, Node] = {}
        """Nodes that have changed and are not written yet."""
        self._decoded: dict[NodeId, Node] = {}
        """Some of the saved nodes."""
        self._decoded_size = 0
        """The characters of what they were decoded from."""
        self._counting: dict[int, tuple[Objective, Outcome | None, tuple[Metric, ...]]] = {}
        """The counting metrics of each run, with what they follow from."""
        self._changed_runs: dict[int, None] = {}

    @property
    def run(self) -> Run | None:
        """Return the newest run."""
        return self.runs[max(self.runs)] if self.runs else None

    @property
    def _nodes(self) -> NodeTable:
        """Return the table with all changes so far, so that a decision finds what it has just done."""
        if self._unsaved and self._table.is_writing:
            self._save_nodes()
        return self._table

    @property
    def ids(self) -> Iterator[NodeId]:
        """Yield all node ids, in the order in which they were added."""
        return self._nodes.ids(self.count)

    def handle(self, node: NodeId) -> int:
        """Return the node's place among all nodes, from 1: its short name, which never changes."""
        return self[node].handle

    def name(self, node: NodeId | str) -> str:
        """Return `@95`, as the node is printed and accepted everywhere."""
        return self[NodeId(node)].name

    def node_of_handle(self, handle: int) -> NodeId:
        """Look up the node with this short name."""
        found = self.nodes_of_handles([handle]).get(handle)
        if found is None:
            newest = f"the newest is {handle_name(self.count)}" if self.count else "nothing has run here yet"
            raise Misuse(f"there is no node {handle_name(handle)}: {newest} (see `loopty tree`)")
        return found

    def nodes_of_handles(self, handles: Sequence[int]) -> Mapping[int, NodeId]:
        """Look up the nodes with these short names."""
        return self._nodes.of_handles(handles)

    def __getitem__(self, node: NodeId) -> Node:
        found = self._unsaved.get(node) or self._decoded.get(node)
        return self._read(node) if found is None else found

    def _read(self, node: NodeId) -> Node:
        """Decode a saved node."""
        body = self._table.body(node)
        if body is None:
            raise Misuse(f"there is no node {node}: `loopty tree` lists them")
        try:
            found = codec.build(Node, json.loads(body))
        except UNREADABLE as error:
            raise damaged(f"node {node}") from error
        if found.id != node:
            raise Misuse(f"the record of node {node} is that of {found.id}: it was changed by hand")
        self._keep_decoded(found, len(body))
        return found

    def _keep_decoded(self, node: Node, size: int) -> None:
        if self._decoded_size >= _MOST_DECODED:
            self._forget_decoded()
        self._decoded_size += size
        self._decoded[node.id] = node

    def _forget_decoded(self) -> None:
        self._decoded.clear()
        self._decoded_size = 0

    def body(self, node: NodeId) -> str:
        """Return the node as one line of JSON."""
        body = None if node in self._unsaved else self._table.body(node)
        return codec.text(self[node]) if body is None else body

    def bodies(self) -> Iterator[tuple[NodeId, str]]:
        """Yield every node of all runs as one line of JSON, in the order in which they were added."""
        return self._nodes.bodies(self.count)

    def nodes_of_pool(self, run: int, pool: Pool) -> Sequence[NodeId]:
        """List the nodes of one pool of one run, oldest first; the baseline is among the attempts."""
        return PoolNodes(self._nodes, run, pool, self.count)

    def newest_nodes(self, run: int, pools: Sequence[Pool]) -> Iterator[NodeId]:
        """Yield the ids of the nodes of a run in these pools, the newest first."""
        return self._nodes.newest(run, pools, self.count)

    def nodes(self, run: int, pool: Pool) -> Iterator[Node]:
        return map(self.__getitem__, self.nodes_of_pool(run, pool))

    def waiting_nodes(self, run: int, pool: Pool) -> Iterator[Node]:
        """Yield the nodes of this run and pool that wait for a trial, oldest first, without the baseline."""
        return (node for node in map(self.__getitem__, self._nodes.waiting(run, pool)) if _waits(node))

    def facts(self, run: int, pool: Pool) -> Iterator[NodeFacts]:
        """Yield the facts of every node of a pool, oldest first."""
        return self._nodes.facts(run, pool, self.count)

    def facts_of(self, handles: Sequence[int]) -> Iterator[tuple[int, NodeFacts]]:
        """Yield the facts of the nodes with these short names, each with its run."""
        return self._nodes.facts_of([handle for handle in handles if handle <= self.count])

    def labels(self, run: int, pool: Pool) -> Iterator[NodeLabel]:
        """Yield the labels of every node of a pool, oldest first."""
        return self._nodes.labels(run, pool, self.count)

    def children(self, run: int) -> list[tuple[int, str, int]]:
        """Return how many children there are, by the handle of their parent and their pool; parents by age."""
        return self._nodes.children(run, self.count)

    def twin(self, run: int, pool: Pool, identity: str) -> NodeId | None:
        """Find the node of this run and pool that is the same experiment, or None; all pools have the baseline."""
        twins = self._nodes.twins(run, identity)
        return next((node for node, other in twins if other is pool or node.parent is None), None)

    def metrics(self, node: Node) -> tuple[Metric, ...]:
        """Return the metrics by which this node is compared, most important first."""
        if metrics := self.counting_metrics(node.id.run):
            return metrics
        if node.outcome is None:
            return ()
        return self.runs[node.id.run].objective.counting_metrics(node.outcome.metrics, node.outcome.directions)

    def counting_metrics(self, run: int) -> tuple[Metric, ...]:
        """Return the metrics that count in this run: those that the task names, else what the baseline reported.

        No candidate can change them. Empty while the task names none and the baseline has no result.
        """
        objective, outcome = self.runs[run].objective, self[self.runs[run].root].outcome
        known = self._counting.get(run)
        if known is None or known[0] is not objective or known[1] is not outcome:
            metrics = objective.metrics
            if outcome is not None and outcome.is_finished:
                metrics = objective.counting_metrics(outcome.metrics, outcome.directions)
            known = self._counting[run] = objective, outcome, metrics
        return known[2]

    def score(self, node: Node) -> float | None:
        """Return the node's value of the metric that lists show, or None if it has none."""
        metrics = self.metrics(node)
        if node.outcome is None or not metrics:
            return None
        return node.outcome.metrics.get(score_metric(metrics).name)

    def put_run(self, run: Run) -> None:
        self.runs[run.number] = run
        self._changed_runs[run.number] = None

    def put(self, node: Node) -> None:
        self.count = max(self.count, node.handle)
        self._unsaved[node.id] = node

    def _save_nodes(self) -> None:
        rows = list(map(self._row, self._unsaved.values()))
        self._table.save(rows)
        for row in rows:
            self._keep_decoded(self._unsaved[NodeId(row.id)], len(row.body))
        self._unsaved.clear()

    def _row(self, node: Node) -> NodeRow:
        outcome, metrics = node.outcome, self.metrics(node) if node.outcome else ()
        metric = score_metric(metrics).name if metrics else None
        score = outcome.metrics.get(metric) if outcome and metric else None
        error_rate = node.effect.error_rate if node.effect else None
        return NodeRow(
            handle=node.handle,
            id=str(node.id),
            run=node.id.run,
            pool=node.pool.value,
            place_in_run=node.order,
            place_in_pool=0,
            parent=self[node.id.parent].handle if node.id.parent else 0,
            added_at=float(node.added_at),
            waits=int(_waits(node)),
            identity=None if node.draft else node.identity,
            verdict=node.verdict.value if node.verdict else None,
            ending=outcome.ending.value if outcome else None,
            basis=basis(outcome.fingerprint if outcome else "", metric),
            score=None if score is None else float(score),
            error_rate=None if error_rate is None else float(error_rate),
            repeats=node.repeats,
            judged=node.judged,
            is_plain=int(not (node.other_fingerprints or node.withdrawn or node.reopened_for)),
            seconds=float(outcome.seconds) if outcome else 0.0,
            label=codec.text([node.operator, node.summary[:LONGEST_SUMMARY]]),
            body=codec.text(node),
        )


def _waits(node: Node) -> bool:
    return node.is_pending and node.id.parent is not None


Fold = Callable[[FoldState, Any, float], None]
"""Folds one event, recorded at this time, into the state. Constant work, whatever the length of the history."""


class Family(Record):
    """One file of this room, as the table in `families.py` lists it."""

    events: tuple[type[Event], ...]
    """The events that the family defines. Each is stored under its name: `NodeAdded` as `node-added`."""
    folds: Mapping[type[Event], Fold] = field(default_factory=dict)
    """What the family does at each event; it may fold events of other families, too."""
