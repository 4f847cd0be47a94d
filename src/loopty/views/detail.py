"""Everything that the record knows of one node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loopty.core.history import History
from loopty.core.ids import NodeId
from loopty.core.objective import Direction
from loopty.core.outcome import Pool
from loopty.core.records import Node
from loopty.core.space import Value
from loopty.views.change import Change, change


@dataclass(frozen=True, slots=True)
class Measured:
    """One metric that the benchmark reported, the baseline's value beside it."""

    name: str
    value: float
    baseline: float | None
    better: Change | None
    """Than the baseline; None where the objective gives the metric no direction."""


@dataclass(frozen=True, slots=True)
class Detail:
    node: Node
    parent: Node | None
    metrics: tuple[Measured, ...]
    """Those of the objective first."""
    changed: Mapping[str, Value | None]
    """Parameters that differ from the parent's, with their value there; None where it had none."""
    best: bool


def detail(history: History, node: NodeId) -> Detail:
    found = history[node]
    run = history.runs[node.run]
    parent = history[node.parent] if node.parent else None
    return Detail(
        found,
        parent,
        _measured(history, found, history[run.root]),
        _changed(found, parent),
        run.account(Pool.ATTEMPT).best == node,
    )


def _measured(history: History, node: Node, root: Node) -> tuple[Measured, ...]:
    if node.outcome is None:
        return ()
    judged = {metric.name: metric.direction for metric in history.metrics(node)}
    directions: dict[str, Direction] = {**node.outcome.directions, **judged}
    reported = node.outcome.metrics
    names = [name for name in judged if name in reported]
    names += [name for name in reported if name not in judged]
    rows = []
    for name in names:
        value = reported[name]
        baseline = root.outcome.metrics.get(name) if root.outcome and node.id != root.id else None
        better = None
        if baseline is not None and name in directions:
            better = change(value, baseline, directions[name])
        rows.append(Measured(name, value, baseline, better))
    return tuple(rows)


def _changed(node: Node, parent: Node | None) -> dict[str, Value | None]:
    if parent is None:
        return {}
    return {
        name: parent.params.get(name) for name, value in node.params.items() if parent.params.get(name) != value
    }
