"""The state that the fold of events keeps: runs, nodes, and which of their pages changed."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.objective import Metric
from loopty.domain.pool import Pool
from loopty.kit import codec
from loopty.record.node_index import NodeIndex
from loopty.record.node_record import Node
from loopty.record.run_record import Run, RunPages

_PAGE_HEAD = re.compile(r'\{"id":"[0-9.]+","pool":"([a-z]+)"')


class FoldState:
    """Every run and node as the events so far leave them. Families read it and put new records into it."""

    def __init__(self) -> None:
        self.number = 0
        """The number of the last event folded in."""
        self.runs: dict[int, Run] = {}
        self._nodes: dict[NodeId, Node | str] = {}
        self._index = NodeIndex(lambda: map(self.__getitem__, list(self._nodes)))
        self._run_pages = RunPages()
        self._changed: dict[str, None] = {}
        """In the order in which pages first changed: a ledger keeps them so, and nodes in their order."""

    @property
    def run(self) -> Run | None:
        """The newest run."""
        return self.runs[max(self.runs)] if self.runs else None

    @property
    def ids(self) -> Iterable[NodeId]:
        """All node ids, in the order in which they were added."""
        return self._nodes.keys()

    @property
    def count(self) -> int:
        """The number of nodes of all runs."""
        return len(self._nodes)

    def handle(self, node: NodeId) -> int:
        """The node's place among all nodes, from 1: its short name, which never changes."""
        return self[node].handle

    def node_of_handle(self, handle: int) -> NodeId:
        """The node with this short name."""
        found = next(itertools.islice(self._nodes, handle - 1, None), None) if handle > 0 else None
        if found is None:
            raise Misuse(f"there is no node #{handle}: the newest is #{self.count} (see `loopty tree`)")
        return found

    def __getitem__(self, node: NodeId) -> Node:
        found = self._nodes.get(node)
        if found is None:
            meant = "" if "." in node else f", and `@{node}` is a node by its short name"
            raise Misuse(f"there is no node {node}: `loopty tree` lists them{meant}")
        if isinstance(found, str):
            found = self._nodes[node] = codec.build(Node, json.loads(found))
            if found.id != node:
                raise Misuse(f"the record of node {node} is that of {found.id}: it was changed by hand")
        return found

    def page(self, node: NodeId) -> str:
        """The node as one line of JSON."""
        found = self._nodes[node]
        return found if isinstance(found, str) else codec.text(found)

    def is_of_pool(self, node: NodeId, pool: Pool) -> bool:
        """Whether the node is of this pool. A page that was not decoded yet tells it at its head."""
        found = self._nodes[node]
        head = _PAGE_HEAD.match(found) if isinstance(found, str) else None
        return (head[1] if head else self[node].pool) == pool

    def nodes_of_pool(self, run: int, pool: Pool) -> list[NodeId]:
        """The nodes of one pool of one run, oldest first; the baseline is among the attempts."""
        return self._index.nodes_of_pool(run, pool)

    def nodes(self, run: int, pool: Pool) -> Iterator[Node]:
        return map(self.__getitem__, self.nodes_of_pool(run, pool))

    def twin(self, run: int, pool: Pool, identity: str) -> NodeId | None:
        """The node of this run and pool that is the same experiment, or None; the baseline is in all pools."""
        return self._index.twin(run, pool, identity)

    def metrics(self, node: Node) -> tuple[Metric, ...]:
        """The metrics by which this node is compared, most important first."""
        if metrics := self.counting_metrics(node.id.run):
            return metrics
        if node.outcome is None:
            return ()
        return self.runs[node.id.run].objective.counting_metrics(node.outcome.metrics, node.outcome.directions)

    def counting_metrics(self, run: int) -> tuple[Metric, ...]:
        """The metrics that count in this run: those that the task names, else those that the baseline reported.

        No candidate can change them. Empty while the task names none and the baseline has no result.
        """
        objective, outcome = self.runs[run].objective, self[self.runs[run].root].outcome
        if outcome is None or not outcome.is_finished:
            return objective.metrics
        return objective.counting_metrics(outcome.metrics, outcome.directions)

    def score(self, node: Node) -> float | None:
        """The node's value of the most important metric, or None where it has none."""
        metrics = self.metrics(node)
        if node.outcome is None or not metrics:
            return None
        return node.outcome.metrics.get(metrics[0].name)

    def put_run(self, run: Run) -> None:
        self.runs[run.number] = run
        self._changed[f"run {run.number}"] = None

    def put(self, node: Node) -> None:
        self._nodes[node.id] = node
        self._changed[node.id] = None

    def add_to_index(self, node: Node) -> None:
        """Index a node that was just put for the first time."""
        self._index.add(node)

    def seal_in_index(self, node: Node) -> None:
        """Index the files of a node that was a draft until now."""
        self._index.seal(node)

    def take_changed_pages(self) -> dict[str, str]:
        """Take the pages that changed since the last call."""
        pages = {
            key: self._run_pages.text(self.runs[int(key[4:])])
            if key.startswith("run ")
            else self.page(NodeId(key))
            for key in self._changed
        }
        self._changed.clear()
        return pages
