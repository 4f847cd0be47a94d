"""Change the better of a few nodes drawn at random: mostly the good ones, sometimes an outsider."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from loopty.domain.objective import Metric, gain
from loopty.domain.outcome import Verdict
from loopty.engine.protocols import Ask, Selection
from loopty.kit.option import option
from loopty.record.node_record import Node

_MAX_DRAWS = 32
"""Draws, before all nodes are looked at."""


@dataclass(frozen=True, slots=True)
class TournamentSelector:
    """`size` finished nodes are drawn, the best of them is taken."""

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
    """A node that can be compared, each as likely as the other; the price does not grow with the pool."""
    lane = ask.history.nodes_of_pool(ask.run, ask.pool)
    for _ in range(_MAX_DRAWS if lane else 0):
        node = ask.history[ask.rng.choice(lane)]
        if _is_comparable(node, metrics):
            return node
    comparable = [node for node in ask.nodes if _is_comparable(node, metrics)]  # there are few, or none
    return ask.rng.choice(comparable) if comparable else None


def _is_comparable(node: Node, metrics: Sequence[Metric]) -> bool:
    """Whether it is a change that finished, was not rejected, and reported everything that it is compared by."""
    outcome = node.outcome
    if not node.id.parent or outcome is None or not outcome.is_finished or node.verdict is Verdict.REJECTED:
        return False
    return all(metric.name in outcome.metrics for metric in metrics)
