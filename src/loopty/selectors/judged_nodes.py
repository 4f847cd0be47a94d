"""The judged nodes of a pool, each read once: what selectors with a population are made from."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Self

from loopty.domain.ids import NodeId
from loopty.domain.objective import Metric
from loopty.domain.outcome import Verdict
from loopty.domain.pool import Pool
from loopty.engine.protocols import Ask
from loopty.kit.records import Record
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.parent_exclusions import exclusion

MOST = 64
"""Nodes that a population keeps: the best of them."""
_COUNTED = (Verdict.KEPT, Verdict.DISCARDED, Verdict.INCONCLUSIVE)
_KEPT: weakref.WeakKeyDictionary[History, dict[Hashable, Any]] = weakref.WeakKeyDictionary()


class NodeValue(Record):
    """A node with a result that can be compared."""

    id: NodeId
    value: float
    """Higher is better."""


class JudgedNodes:
    """Reads the nodes that were judged since the last question, in the order of their verdicts."""

    def __init__(self) -> None:
        self._nodes_seen = 0
        self._undecided: list[NodeId] = []

    @classmethod
    def of(cls, ask: Ask, make: Callable[[], Self], key: Hashable = ()) -> Self:
        """The population of this history, run, pool and machine, brought up to date."""
        fingerprint = Cohorts.of(ask.history.runs[ask.run]).fingerprint
        kept = _KEPT.setdefault(ask.history, {})
        name = (cls, key, ask.run, ask.pool, fingerprint)
        if name not in kept:
            kept[name] = make()
        found: Self = kept[name]
        found._read(ask, fingerprint)
        return found

    def add(self, node: Node, value: float) -> None:
        """Called once for each node that can be compared."""

    def _read(self, ask: Ask, fingerprint: str) -> None:
        ids = ask.history.nodes_of_pool(ask.run, ask.pool)
        unread = [ask.history[node] for node in (*self._undecided, *ids[self._nodes_seen :])]
        self._nodes_seen = len(ids)
        self._undecided = [node.id for node in unread if not node.verdict]
        for node in sorted((node for node in unread if node.verdict), key=lambda node: node.judged):
            value = node_value(ask, node, fingerprint)
            if value is not None:
                self.add(node, value)


class Population(JudgedNodes):
    """The best nodes of a pool, the best first. The baseline is one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.ranked: list[NodeValue] = []

    def add(self, node: Node, value: float) -> None:
        place = next((at for at, other in enumerate(self.ranked) if other.value < value), len(self.ranked))
        self.ranked.insert(place, NodeValue(node.id, value))
        del self.ranked[MOST:]


def population(ask: Ask) -> list[NodeValue]:
    """The best nodes that can be changed, the best first; the baseline alone before there are others."""
    ranked = [one for one in Population.of(ask, Population).ranked if can_change(ask, one.id)]
    return ranked or [NodeValue(ask.root.id, 0.0)]


def can_change(ask: Ask, node: NodeId) -> bool:
    """Whether a change may start from the node: it has its files and its verdict, and nobody said otherwise."""
    found = ask.history[node]
    is_sound = not found.files_removed and (found.verdict in _COUNTED or found.id.parent is None)
    is_free = ask.pool is not Pool.ATTEMPT or not exclusion(ask.history, node, ask.anchors.audits)
    return is_sound and is_free


def node_value(ask: Ask, node: Node, fingerprint: str) -> float | None:
    """The node's result as one number, where higher is better; None where it cannot be compared."""
    metrics = ask.history.counting_metrics(ask.run)
    result = node.result(fingerprint)
    if not metrics or result is None or not result.outcome.is_finished or node.verdict not in _COUNTED:
        return None
    values = result.outcome.metrics
    if any(metric.name not in values for metric in metrics):
        return None
    return _one_number(metrics, values)


def _one_number(metrics: Sequence[Metric], values: Any) -> float:
    if all(metric.weight is not None for metric in metrics):
        return float(sum((one.weight or 0.0) * one.direction.sign * values[one.name] for one in metrics))
    return float(metrics[0].direction.sign * values[metrics[0].name])
