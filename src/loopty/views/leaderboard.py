"""The best nodes of a run under one fingerprint, ranked by the objective."""

from __future__ import annotations

import functools
import heapq
from dataclasses import dataclass

from loopty.domain.objective import gain
from loopty.domain.pool import SEARCH_POOLS
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.record.node_record import Node, Result
from loopty.views.comparable import comparable_result, incumbents, is_noisy
from loopty.views.over_baseline import over_baseline
from loopty.views.score_change import ScoreChange


@dataclass(frozen=True, slots=True)
class LeaderboardRow:
    """One row of the leaderboard."""

    rank: int
    node: Node
    score: float
    over_baseline: ScoreChange | None
    """None for the baseline itself, and when the baseline was not measured."""
    measurements: int
    varying: bool
    """Whether repeated measurements varied: then kept nodes rank before the others."""

    @property
    def is_single_measurement(self) -> bool:
        """Whether the score is a single measurement although measurements vary: it may be luck."""
        return self.varying and self.measurements == 1


@dataclass(frozen=True, slots=True)
class _Entry:
    node: Node
    result: Result
    proven: bool


def leaderboard(history: History, run: int, top: int, fingerprint: str | None = None) -> list[LeaderboardRow]:
    """The `top` best nodes, attempts and control alike; among equals the older first.

    They are compared under one fingerprint, by default the run's present one. Where measurements vary, kept nodes
    rank before the others, because the best of many single measurements is the luckiest.
    """
    record = history.runs[run]
    under = Cohorts.of(record).fingerprint if fingerprint is None else fingerprint
    root = history[record.root]
    metrics = history.counting_metrics(run)
    if not metrics or root.outcome is None or not root.outcome.is_finished:
        return []
    wanted = {metric.name for metric in metrics}
    varying = is_noisy(record, under)
    kept = frozenset(incumbents(history, record, under)) if varying else frozenset()
    entries = [
        _Entry(node, result, node.id in kept)
        for pool in SEARCH_POOLS
        for node in history.nodes(run, pool)
        if (result := comparable_result(node, under)) and wanted <= result.outcome.metrics.keys()
    ]

    def compare(one: _Entry, other: _Entry) -> int:
        if one.proven != other.proven:
            return -1 if one.proven else 1
        amount = gain(one.result.outcome.metrics, other.result.outcome.metrics, metrics).amount
        if amount:
            return -1 if amount > 0 else 1
        return one.node.order - other.node.order

    rows = []
    for rank, entry in enumerate(heapq.nsmallest(top, entries, key=functools.cmp_to_key(compare)), start=1):
        score = entry.result.outcome.metrics[metrics[0].name]
        change = over_baseline(history, entry.node.id, under, metrics[0])
        measurements = max(len(entry.result.samples), 1)
        rows.append(LeaderboardRow(rank, entry.node, score, change, measurements, varying))
    return rows
