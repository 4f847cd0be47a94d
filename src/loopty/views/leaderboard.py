"""The nodes that a run kept under one fingerprint, ranked by the objective."""

from __future__ import annotations

import functools
import heapq
from collections.abc import Mapping

from loopty.domain.objective import gain
from loopty.domain.pool import SEARCH_POOLS
from loopty.domain.space import Value
from loopty.kit.dataclass import Record, dataclass
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.record.node_record import Node, Result
from loopty.views.comparable import comparable_result, incumbents, sigma
from loopty.views.over_baseline import over_baseline
from loopty.views.param_changes import param_changes
from loopty.views.score_change import ScoreChange


@dataclass(frozen=True, slots=True)
class LeaderboardRow(Record):
    """One row of the leaderboard."""

    rank: int
    node: Node
    score: float
    over_baseline: ScoreChange | None
    """None for the baseline itself, and when the baseline was not measured."""
    noise: float
    """Of one measurement; 0 where results do not vary."""
    changed_params: Mapping[str, Value | None]
    """Parameters that differ from the parent's, with the parent's value; None if it had none."""


@dataclass(frozen=True, slots=True)
class _Entry(Record):
    node: Node
    result: Result


def leaderboard(history: History, run: int, top: int, fingerprint: str | None = None) -> list[LeaderboardRow]:
    """The `top` best of the kept nodes, attempts and control alike; among equals the older first.

    They are compared under one fingerprint, by default the run's present one. What was not kept is not listed: the
    best of many single measurements is the luckiest, and what equals the best is no better. A machine without a
    baseline keeps nothing; then every result is listed.
    """
    record = history.runs[run]
    under = Cohorts.of(record).fingerprint if fingerprint is None else fingerprint
    root = history[record.root]
    metrics = history.counting_metrics(run)
    if not metrics or root.outcome is None or not root.outcome.is_finished:
        return []
    wanted = {metric.name for metric in metrics}
    kept = list(dict.fromkeys(incumbents(history, record, under)))
    entries = [
        _Entry(history[node], result)
        for node in kept or [node for pool in SEARCH_POOLS for node in history.nodes_of_pool(run, pool)]
        if (result := comparable_result(history[node], under)) and wanted <= result.outcome.metrics.keys()
    ]

    def compare(one: _Entry, other: _Entry) -> int:
        amount = gain(one.result.outcome.metrics, other.result.outcome.metrics, metrics).amount
        if amount:
            return -1 if amount > 0 else 1
        return one.node.order - other.node.order

    rows = []
    for rank, entry in enumerate(heapq.nsmallest(top, entries, key=functools.cmp_to_key(compare)), start=1):
        score = entry.result.outcome.metrics[metrics[0].name]
        change = over_baseline(history, entry.node.id, under, metrics[0])
        parent = history[entry.node.id.parent] if entry.node.id.parent else None
        noise, changed = sigma(record, under, metrics[0].name), param_changes(entry.node, parent)
        rows.append(LeaderboardRow(rank, entry.node, score, change, noise, changed))
    return rows
