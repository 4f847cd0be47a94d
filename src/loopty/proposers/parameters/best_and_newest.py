"""The best and the newest configurations of one state of the code, updated as verdicts come in.

A question must not sort every node: an update reads only nodes that are new, undecided or kept, because no other
node can change any more. A new process builds the ranking from the history, and it depends on the history alone.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

from loopty.domain.ids import NodeId
from loopty.domain.objective import Metric, Metrics
from loopty.domain.outcome import Ending, Verdict
from loopty.domain.pool import Pool
from loopty.record.history import History
from loopty.record.node_record import Node

_MANY_NODES = 500
"""With more of them to read at once, the facts say which."""
Worth = tuple[float, ...]
"""Smaller is better."""


class Ranking:
    """Ranks the nodes of one pool of one run that have the same files, without the baseline."""

    def __init__(self, run: int, pool: Pool, tree: str, metrics: tuple[Metric, ...], limit: int) -> None:
        self._run = run
        self._pool = pool
        self._tree = tree
        self._metrics = metrics
        self._limit = limit
        self._nodes_seen = 0
        """How many nodes of the pool it has read."""
        self._open: list[NodeId] = []
        """Nodes without a verdict, with any files: the files of a draft may change."""
        self._kept: list[NodeId] = []
        """Kept nodes: they are measured again when others are compared with them."""
        self._best_not_kept: list[tuple[Worth, int, NodeId]] = []
        """The best judged nodes that were not kept, the best first; of equal nodes the oldest first."""
        self._newest: list[tuple[int, NodeId]] = []
        """The newest judged nodes, the newest last."""

    def update(self, history: History) -> None:
        """Read the nodes and verdicts since the last update."""
        ids = history.nodes_of_pool(self._run, self._pool)
        is_long = len(ids) - self._nodes_seen > _MANY_NODES and self._nodes_seen == 0
        nodes = self._candidates(history) if is_long else None
        if nodes is None:
            nodes = [history[node] for node in (*self._open, *ids[self._nodes_seen :]) if node.parent]
        self._nodes_seen = len(ids)
        self._open = [node.id for node in nodes if node.verdict is None]
        for node in nodes:
            if node.verdict and node.tree == self._tree:
                self._take_verdict(node)

    def _candidates(self, history: History) -> list[Node] | None:
        """The nodes that can be ranked, by the facts about all; None where the facts do not tell.

        Files are no fact, so that nodes are read from the best and from the newest on, until enough have these.
        """
        metric = self._metrics[0] if len(self._metrics) == 1 else None
        if metric is None or metric.tolerance or (metric.weight is not None and metric.weight <= 0):
            return None
        wanted, scored, judged = set[int](), list[tuple[float, int, int]](), list[tuple[int, int]]()
        for block in history.facts():
            for handle, facts in enumerate(block.nodes, block.first):
                kind = facts.kind
                if kind.run != self._run or kind.pool != self._pool.value:
                    continue
                if kind.ending == Ending.FINISHED and kind.metric != metric.name:
                    return None
                if kind.verdict is None or kind.verdict == Verdict.KEPT:
                    wanted.add(handle)
                elif (
                    kind.ending == Ending.FINISHED and kind.verdict != Verdict.REJECTED and facts.score is not None
                ):
                    scored.append((-metric.direction.sign * facts.score, facts.order, handle))
                if kind.verdict is not None:
                    judged.append((-facts.order, handle))
        for handles in ([row[-1] for row in sorted(scored)], [row[-1] for row in sorted(judged)]):
            wanted.update(self._first_with_these_files(history, handles))
        found = history.nodes_of_handles(sorted(wanted))
        return [history[found[handle]] for handle in sorted(wanted) if found[handle].parent]

    def _first_with_these_files(self, history: History, handles: Sequence[int]) -> Iterator[int]:
        """As many handles as are listed at most, of nodes with these files; the baseline does not count."""
        count = 0
        for start in range(0, len(handles), _MANY_NODES):
            part = handles[start : start + _MANY_NODES]
            found = history.nodes_of_handles(part)
            for handle in part:
                if count == self._limit:
                    return
                node = history[found[handle]]
                if node.tree == self._tree and node.id.parent:
                    count += 1
                    yield handle

    def best(self, history: History, start: Node, limit: int) -> list[Node]:
        """The best nodes, `start` among them; of equal nodes `start` comes first, then the oldest."""
        unsettled = (*map(history.__getitem__, self._kept), *self._open_nodes(history))
        ranked = [entry for node in unsettled if (entry := self._entry(node))]
        ranked = sorted(entry for entry in (*ranked, *self._best_not_kept) if entry[2] != start.id)
        if entry := self._entry(start):
            bisect.insort_left(ranked, entry, key=lambda other: other[0])
        return [history[node] for _, _, node in ranked[:limit]]

    def newest(self, history: History) -> list[Node]:
        """The newest nodes, the newest first."""
        undecided = ((node.order, node.id) for node in self._open_nodes(history))
        return [history[node] for _, node in sorted((*self._newest, *undecided), reverse=True)[: self._limit]]

    def _open_nodes(self, history: History) -> Iterator[Node]:
        return (node for node in map(history.__getitem__, self._open) if node.tree == self._tree)

    def _take_verdict(self, node: Node) -> None:
        bisect.insort(self._newest, (node.order, node.id))
        del self._newest[: -self._limit]
        if node.verdict is Verdict.KEPT:
            self._kept.append(node.id)
        elif entry := self._entry(node):
            bisect.insort(self._best_not_kept, entry)
            del self._best_not_kept[self._limit :]

    def _entry(self, node: Node) -> tuple[Worth, int, NodeId] | None:
        """The node's sort key and id; None when it cannot be compared."""
        outcome, metrics = node.outcome, self._metrics
        if not metrics or outcome is None or not outcome.is_finished or node.verdict is Verdict.REJECTED:
            return None
        if any(metric.name not in outcome.metrics for metric in metrics):
            return None
        return _worth(outcome.metrics, metrics), node.order, node.id


def _worth(reported: Metrics, metrics: tuple[Metric, ...]) -> Worth:
    """The weighted sum; without weights metric by metric, where values in the same tolerance step count as equal.

    Steps, not differences: of three results the neighbours may be within a tolerance of each other while the outer
    two are not, and such a relation cannot sort anything.
    """
    values = [-metric.direction.sign * reported[metric.name] for metric in metrics]
    if all(metric.weight is not None for metric in metrics):
        return (sum((metric.weight or 0.0) * value for metric, value in zip(metrics, values, strict=True)),)
    steps = (
        value // metric.tolerance if metric.tolerance else value
        for metric, value in zip(metrics, values, strict=True)
    )
    return (*steps, *values)
