"""What the user, audits and past versions say about the parent comes before what a selector chooses."""

from __future__ import annotations

from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.engine.protocols import Ask, Selection, Selector
from loopty.kit.records import Record
from loopty.record.cohorts import Cohorts
from loopty.record.directives import Directive
from loopty.record.node_record import Node
from loopty.record.parent_exclusions import excluded_tops, exclusion
from loopty.record.verdicts import Incumbents
from loopty.selectors.judged_nodes import Population, can_change, node_value


class _Among(Population):
    """The best nodes at or below some nodes, or those that are not below some others."""

    def __init__(self, tops: tuple[NodeId, ...], is_wanted: bool) -> None:
        super().__init__()
        self._tops = tops
        self._is_wanted = is_wanted

    def add(self, node: Node, value: float) -> None:
        if any(node.id.is_within(top) for top in self._tops) is self._is_wanted:
            super().add(node, value)


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
    """The best node at or below those that the directive names; None where it names none that can be changed."""
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
    """The best past version, where its result is better than that of the node and of the best node."""
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
