"""The best trials of a run under one fingerprint."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Mapping, Sequence

from loopty.domain.objective import Metric, gain, metrics_fault, score_metric
from loopty.domain.pool import SEARCH_POOLS
from loopty.domain.space import Value
from loopty.kit.records import Record
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.record.node_record import Node, Result
from loopty.record.run_record import Run
from loopty.record.verdicts import Incumbents
from loopty.views.comparable import comparable_result, incumbents, sigma
from loopty.views.over_baseline import over_baseline
from loopty.views.param_changes import param_changes
from loopty.views.rated_nodes import rated_nodes
from loopty.views.score_change import ScoreChange


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
    merged: tuple[str, ...] = ()
    """The names of its further parents."""
    why_behind: str = ""
    """Why it is not the best although its score is better; empty where it is not."""


class _Entry(Record):
    node: Node
    result: Result


def leaderboard(history: History, run: int, top: int, fingerprint: str | None = None) -> list[LeaderboardRow]:
    """The best node, then the best others by their scores, attempts and control alike.

    Listed are the nodes that were kept and, as in any study, the trials that only set parameters. No edit that was
    not kept is listed: the best of many single measurements is the luckiest. All are compared under one
    fingerprint, by default the run's present one. A machine without a baseline keeps nothing: there every result
    is listed.
    """
    record = history.runs[run]
    under = Cohorts.of(record).fingerprint if fingerprint is None else fingerprint
    root = history[record.root]
    metrics = history.counting_metrics(run)
    if not metrics or root.outcome is None or not root.outcome.is_finished:
        return []
    metric = score_metric(metrics)
    entries = {
        node.id: _Entry(node, result)
        for node in _candidates(history, record, under, metric, top)
        if (result := comparable_result(node, under)) and not metrics_fault(result.outcome.metrics, metrics)
    }
    firsts = (Incumbents.of(record, pool).by_fingerprint.get(under) for pool in SEARCH_POOLS)
    leader = _leader([entries[node] for node in firsts if node in entries], metrics)

    def rank(entry: _Entry) -> tuple[bool, float, int]:
        score = metric.direction.sign * entry.result.outcome.metrics[metric.name]
        return entry is not leader, -score, entry.node.order

    rows = []
    for place, entry in enumerate(heapq.nsmallest(top, entries.values(), key=rank), start=1):
        node, score = entry.node, entry.result.outcome.metrics[metric.name]
        change = over_baseline(history, node.id, under, metric)
        changed = param_changes(node, history[node.id.parent] if node.id.parent else None)
        merged = tuple(map(history.name, node.merged))
        is_behind = leader is not None and rank(entry)[1] < rank(leader)[1]
        why = _why_behind(entry, leader, metrics) if leader and is_behind else ""
        noise = sigma(record, under, metric.name)
        rows.append(LeaderboardRow(place, node, score, change, noise, changed, merged, why))
    return rows


def _candidates(history: History, run: Run, under: str, metric: Metric, top: int) -> Iterator[Node]:
    """The nodes that may be listed. Of trials that only set parameters, no more are read than can be."""
    kept = set(incumbents(history, run, under))
    if not kept:
        yield from (history[node] for pool in SEARCH_POOLS for node in history.nodes_of_pool(run.number, pool))
        return
    yield from map(history.__getitem__, kept)
    root = history[run.root]
    if not root.params or under != Cohorts.of(run).fingerprint:
        return
    rated = [node for node in rated_nodes(history, run.number).nodes if node.score is not None]
    rated.sort(key=lambda node: (-metric.direction.sign * (node.score or 0.0), node.order))
    found = (history[history.node_of_handle(one.handle)] for one in rated if one.kind.pool in SEARCH_POOLS)
    yield from itertools.islice((node for node in found if node.tree == root.tree and node.id not in kept), top)


def _leader(entries: Sequence[_Entry], metrics: tuple[Metric, ...]) -> _Entry | None:
    """The best attempt or the best control node, whichever the objective prefers."""
    best: _Entry | None = None
    for entry in entries:
        if best is None or gain(entry.result.outcome.metrics, best.result.outcome.metrics, metrics).amount > 0:
            best = entry
    return best


def _why_behind(entry: _Entry, leader: _Entry, metrics: tuple[Metric, ...]) -> str:
    """Why a trial with a better score than the best node's is not the best."""
    found, first = gain(entry.result.outcome.metrics, leader.result.outcome.metrics, metrics), metrics[0]
    if found.amount <= 0 and found.metric:
        decided = f"{found.metric.name} decided" if found.metric != first else "the older one stays"
        return f"within the tolerance of {first.tolerance:g} in {first.name}: {decided}"
    return "not better in pairs" if entry.node.effect else "measured only once"
