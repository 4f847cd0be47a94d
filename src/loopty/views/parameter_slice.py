"""The scores of a run against one of its parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from loopty.domain.objective import Direction, score_metric
from loopty.domain.outcome import Verdict
from loopty.domain.pool import Pool
from loopty.domain.space import Value
from loopty.kit.records import Record
from loopty.record.history import History
from loopty.views.parameter_importance import parameter_points
from loopty.views.rated_nodes import RatedNodes
from loopty.views.score_points import Mark


class SlicePoint(Record):
    """One trial: its value of the parameter, and its score."""

    value: Value
    score: float
    pool: Pool
    mark: Mark


class ParameterSlice(Record):
    """Every trial that has the parameter, in the order of the experiments."""

    parameter: str
    metric: str
    direction: Direction
    points: tuple[SlicePoint, ...]


def parameter_slice(
    history: History, run: int, parameter: str, rated: RatedNodes | None = None
) -> ParameterSlice | None:
    """The trials with the code of the best node, attempts and control alike; None if none has the parameter.

    `rated` are the nodes of the run, where they are known.
    """
    metrics = history.counting_metrics(run)
    if not metrics:
        return None
    metric = score_metric(metrics)
    found = [
        SlicePoint(node.params[parameter], metric.direction.sign * score, node.pool, _mark(node.verdict))
        for node, score in sorted(parameter_points(history, run, rated), key=lambda point: point[0].order)
        if parameter in node.params and math.isfinite(score)
    ]
    return ParameterSlice(parameter, metric.name, metric.direction, tuple(found)) if found else None


def parameters_of(history: History, run: int, rated: RatedNodes | None = None) -> Sequence[str]:
    """The names of the parameters that trials of the run have."""
    return list(dict.fromkeys(name for node, _ in parameter_points(history, run, rated) for name in node.params))


def _mark(verdict: Verdict | None) -> Mark:
    return Mark.KEPT if verdict is Verdict.KEPT else Mark.DISCARDED
