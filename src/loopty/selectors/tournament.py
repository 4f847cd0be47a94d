"""Change the better of a few nodes drawn at random: mostly the good ones, sometimes an outsider."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from loopty.core.objective import Metric, gain
from loopty.core.outcome import Verdict
from loopty.core.parts import Ask
from loopty.core.records import Node


@dataclass(frozen=True, slots=True)
class TournamentSelector:
    """`size` finished nodes are drawn, the best of them is taken."""

    size: int = 4

    def parent(self, ask: Ask) -> Node:
        metrics = ask.history.metrics(ask.root)
        comparable = [node for node in ask.nodes if _has_all(node, metrics)]
        if not comparable:
            return ask.root
        drawn = [ask.rng.choice(comparable) for _ in range(self.size)]

        def better(one: Node, other: Node) -> Node:
            assert one.outcome
            assert other.outcome
            return one if gain(one.outcome.metrics, other.outcome.metrics, metrics).amount >= 0 else other

        return functools.reduce(better, drawn)


def _has_all(node: Node, metrics: Sequence[Metric]) -> bool:
    """Whether the node finished, was not rejected, and reported everything that it is compared by."""
    outcome = node.outcome
    if outcome is None or not outcome.finished or node.verdict is Verdict.REJECTED:
        return False
    return all(metric.name in outcome.metrics for metric in metrics)
