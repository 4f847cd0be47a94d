"""The best nodes of a run, in the order of the objective."""

from __future__ import annotations

import functools
import heapq
from dataclasses import dataclass

from loopty.core.history import History
from loopty.core.objective import gain
from loopty.core.outcome import Outcome, Pool
from loopty.core.records import Node
from loopty.views.change import Change, change


@dataclass(frozen=True, slots=True)
class Place:
    """One line of the leaderboard."""

    rank: int
    node: Node
    score: float
    over_baseline: Change | None
    """None for the baseline itself."""


def leaderboard(history: History, run: int, top: int) -> list[Place]:
    """The `top` best nodes, attempts and control alike; equal ones: the older first."""
    root = history[history.runs[run].root]
    metrics = history.metrics(root)
    if not metrics or root.outcome is None or not root.outcome.finished:
        return []
    wanted = {metric.name for metric in metrics}
    results: list[tuple[Node, Outcome]] = []
    for pool in (Pool.ATTEMPT, Pool.CONTROL):
        for node in history.nodes(run, pool):
            outcome = node.outcome
            if outcome and node.verdict and outcome.finished and wanted <= outcome.metrics.keys():
                results.append((node, outcome))

    def compared(one: tuple[Node, Outcome], other: tuple[Node, Outcome]) -> int:
        amount = gain(one[1].metrics, other[1].metrics, metrics).amount
        if amount:
            return -1 if amount > 0 else 1
        return one[0].order - other[0].order

    name, direction = metrics[0].name, metrics[0].direction
    baseline = root.outcome.metrics[name]
    best = heapq.nsmallest(top, results, key=functools.cmp_to_key(compared))
    return [
        Place(
            rank,
            node,
            outcome.metrics[name],
            change(outcome.metrics[name], baseline, direction) if node.id.parent else None,
        )
        for rank, (node, outcome) in enumerate(best, start=1)
    ]
