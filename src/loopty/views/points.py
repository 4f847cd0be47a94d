"""Every judged node as one point: score over the order of the experiments."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from loopty.core.history import History
from loopty.core.ids import NodeId
from loopty.core.objective import Direction
from loopty.core.outcome import Pool, Verdict
from loopty.core.records import Node


class Mark(enum.StrEnum):
    """How a point is drawn. A node without a comparable score failed, whatever the reason."""

    KEPT = "kept"
    DISCARDED = "discarded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Point:
    order: int
    node: NodeId
    pool: Pool
    mark: Mark
    score: float | None
    """None for a failed one only."""


@dataclass(frozen=True, slots=True)
class Points:
    """The points of one run, in the order of the experiments, and what their score is called."""

    metric: str
    direction: Direction
    items: tuple[Point, ...]


def points(history: History, run: int) -> Points:
    judged = [
        node
        for pool in (Pool.ATTEMPT, Pool.CONTROL)
        for node in history.nodes(run, pool)
        if node.verdict is not None
    ]
    judged.sort(key=lambda node: node.order)
    metrics = next((found for node in judged if (found := history.metrics(node))), ())
    objective = history.runs[run].objective
    return Points(
        metrics[0].name if metrics else "score",
        metrics[0].direction if metrics else objective.direction,
        tuple(_point(history, node) for node in judged),
    )


def _point(history: History, node: Node) -> Point:
    score = history.score(node) if node.outcome and node.outcome.finished else None
    return Point(node.order, node.id, node.pool, _mark(node, score), score)


def _mark(node: Node, score: float | None) -> Mark:
    if score is None:
        return Mark.FAILED
    return Mark.KEPT if node.verdict is Verdict.KEPT else Mark.DISCARDED
