"""Change the better of a few nodes drawn at random: mostly the good ones, sometimes an outsider."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from loopty.domain.objective import Metric, gain
from loopty.domain.outcome import Verdict
from loopty.engine.protocols import Ask, Selection
from loopty.kit.dataclass import Record, dataclass
from loopty.kit.option import option
from loopty.record.node_record import Node

_MAX_DRAWS = 32
"""Draws before all nodes are read."""


@dataclass(frozen=True, slots=True)
class TournamentSelector(Record):
    """Draws `size` finished nodes and takes the best of them."""

    size: int = option("How many nodes are drawn.", 4, minimum=1)

    def select(self, ask: Ask) -> Selection:
        metrics = ask.history.metrics(ask.root)
        drawn = [node for node in (_draw(ask, metrics) for _ in range(self.size)) if node]
        if not drawn:
            return Selection(ask.root, "the baseline: no other node can be compared yet")

        def better(one: Node, other: Node) -> Node:
            assert one.outcome
            assert other.outcome
            return one if gain(one.outcome.metrics, other.outcome.metrics, metrics).amount >= 0 else other

        return Selection(functools.reduce(better, drawn), f"the best of {len(drawn)} nodes drawn at random")


def _draw(ask: Ask, metrics: Sequence[Metric]) -> Node | None:
    """A comparable node, all equally likely, or None if there is none; a large pool does not cost more."""
    ids = ask.history.nodes_of_pool(ask.run, ask.pool)
    for _ in range(_MAX_DRAWS if ids else 0):
        node = ask.history[ask.rng.choice(ids)]
        if _is_comparable(node, metrics):
            return node
    comparable = [node for node in ask.nodes if _is_comparable(node, metrics)]  # there are few, or none
    return ask.rng.choice(comparable) if comparable else None


def _is_comparable(node: Node, metrics: Sequence[Metric]) -> bool:
    """Whether the node finished, was not rejected, has its files, and reported all these metrics."""
    outcome = node.outcome
    if not node.id.parent or outcome is None or not outcome.is_finished or node.verdict is Verdict.REJECTED:
        return False
    if node.files_removed:
        return False
    return all(metric.name in outcome.metrics for metric in metrics)
