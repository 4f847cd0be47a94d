"""The judged nodes of a pool, each read once, and what the user, audits and past versions say about the parent."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Self

from loopty.domain.ids import NodeId
from loopty.domain.objective import Metric
from loopty.domain.trial import Pool, Verdict
from loopty.engine.protocols import Ask, Selection, Selector
from loopty.kit.records import Record
from loopty.record.directives import Directive, excluded_tops, exclusion
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.trials import Cohorts
from loopty.record.verdicts import Incumbents

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
        """Return the population of this history, run, pool and machine, brought up to date."""
        fingerprint = Cohorts.of(ask.history.runs[ask.run]).fingerprint
        kept = _KEPT.setdefault(ask.history, {})
        name = (cls, key, ask.run, ask.pool, fingerprint)
        if name not in kept:
            kept[name] = make()
        found: Self = kept[name]
        found._read(ask, fingerprint)
        return found

    def add(self, node: Node, value: float) -> None:
        """Take in one node that can be compared; called once for each."""

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
    """List the best nodes that can be changed, the best first; the baseline alone before there are others."""
    ranked = [one for one in Population.of(ask, Population).ranked if can_change(ask, one.id)]
    return ranked or [NodeValue(ask.root.id, 0.0)]


def can_change(ask: Ask, node: NodeId) -> bool:
    """Say whether a change may start from the node: it has its files and verdict, and nobody ruled it out."""
    found = ask.history[node]
    is_sound = not found.files_removed and (found.verdict in _COUNTED or found.id.parent is None)
    is_free = ask.pool is not Pool.ATTEMPT or not exclusion(ask.history, node, ask.anchors.audits)
    return is_sound and is_free


def node_value(ask: Ask, node: Node, fingerprint: str) -> float | None:
    """Return the node's result as one number, where higher is better; None if it cannot be compared."""
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


class _Among(Population):
    """The best nodes at or below some nodes, or those that are not below some others."""

    def __init__(self, tops: tuple[NodeId, ...], is_wanted: bool) -> None:
        super().__init__()
        self._tops = tops
        self._is_wanted = is_wanted

    def add(self, node: Node, value: float) -> None:
        if any(node.id.is_within(top) for top in self._tops) is self._is_wanted:
            super().add(node, value)


# One wrapper around every selector, so that steering combines with each.
class SteeredSelector(Record):
    """A selector of attempts within what the directive, audits and past versions leave to it."""

    inner: Selector
    takes_versions: bool = True

    def select(self, ask: Ask) -> Selection:
        if ask.pool is not Pool.ATTEMPT:  # a control stays what it is: the search without help
            return self.inner.select(ask)
        if directed := _directed_selection(ask):
            return directed
        selection = self.inner.select(ask)
        if why := exclusion(ask.history, selection.node.id, ask.anchors.audits):
            selection = Selection(
                _best_allowed(ask), f"the best node that may be changed: {why}", selection.operator
            )
        return (_better_version(ask, selection) if self.takes_versions else None) or selection


def _directed_selection(ask: Ask) -> Selection | None:
    """Return the best changeable node at or below those that the directive names; None if there is none."""
    tops = Directive.of(ask.history.runs[ask.run]).build_on
    if not tops:
        return None
    ranked = [one.id for one in _Among.of(ask, lambda: _Among(tops, True), (tops, True)).ranked]
    node = next((node for node in (*ranked, *tops) if can_change(ask, node)), None)
    reason = f"the directive says: build on {' or '.join(map(ask.history.name, tops))}"
    return Selection(ask.history[node], reason, is_directed=True) if node else None


def _best_allowed(ask: Ask) -> Node:
    tops = excluded_tops(ask.history.runs[ask.run], ask.anchors.audits)
    ranked = _Among.of(ask, lambda: _Among(tops, False), (tops, False)).ranked
    return next((ask.history[one.id] for one in ranked if can_change(ask, one.id)), ask.root)


def _better_version(ask: Ask, selection: Selection) -> Selection | None:
    """Return the best past version, if its result is better than the node's and the best node's."""
    run = ask.history.runs[ask.run]
    best = Incumbents.of(run, Pool.VERSION).best
    if best is None or best == run.root or not can_change(ask, best):
        return None
    fingerprint, version = Cohorts.of(run).fingerprint, ask.history[best]
    value = node_value(ask, version, fingerprint)
    others = [node_value(ask, node, fingerprint) for node in (selection.node, ask.best)]
    if value is None or any(other is not None and other >= value for other in others):
        return None
    reason = f"{version.summary} is better than the best node, {ask.best.name}"
    return Selection(version, reason, selection.operator)
