"""The best trials of a run under one fingerprint, and its results on other machines."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Mapping, Sequence

from loopty.domain.objective import Metric, gain, metrics_fault, score_metric
from loopty.domain.space import Value
from loopty.domain.trial import SEARCH_POOLS, Verdict
from loopty.kit.records import Record
from loopty.record.history import History
from loopty.record.node_record import Node, Result
from loopty.record.run_record import Run
from loopty.record.trials import Cohorts
from loopty.record.verdicts import Incumbents
from loopty.show.comparisons import (
    ScoreChange,
    comparable_result,
    incumbents,
    machine_description,
    over_baseline,
    sigma,
)
from loopty.show.rated_nodes import RatedNodes, rated_nodes
from loopty.show.score_text import ScoreText
from loopty.show.terminal import Terminal, cut, pad, width, wrap
from loopty.show.tree_rows import param_changes
from loopty.show.tree_text import ChangeLine, node_remark


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
    """List the best node, then the best others by their scores, attempts and control alike.

    Listed are the nodes that were kept and, as in any study, the trials that only set parameters; on a machine
    without a baseline, every result. All are compared under one fingerprint, by default the run's present one.
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
        rows.append(
            LeaderboardRow(
                rank=place,
                node=node,
                score=score,
                over_baseline=change,
                noise=noise,
                changed_params=changed,
                merged=merged,
                why_behind=why,
            )
        )
    return rows


def _candidates(history: History, run: Run, under: str, metric: Metric, top: int) -> Iterator[Node]:
    """Yield the nodes that may be listed. Of trials that only set parameters, read no more than can be listed."""
    kept = set(incumbents(history, run, under))
    if not kept:  # a machine without a baseline keeps nothing
        yield from (history[node] for pool in SEARCH_POOLS for node in history.nodes_of_pool(run.number, pool))
        return
    yield from map(history.__getitem__, kept)
    root = history[run.root]
    if not root.params or under != Cohorts.of(run).fingerprint:
        return
    rated = [node for node in rated_nodes(history, run.number).nodes if node.score is not None]
    rated.sort(key=lambda node: (-metric.direction.sign * (node.score or 0.0), node.order))
    found = (history[history.node_of_handle(one.handle)] for one in rated if one.pool in SEARCH_POOLS)
    # No edit that was not kept: the best of many single measurements is the luckiest.
    yield from itertools.islice((node for node in found if node.tree == root.tree and node.id not in kept), top)


def _leader(entries: Sequence[_Entry], metrics: tuple[Metric, ...]) -> _Entry | None:
    """Return the best attempt or the best control node, whichever the objective prefers."""
    best: _Entry | None = None
    for entry in entries:
        if best is None or gain(entry.result.outcome.metrics, best.result.outcome.metrics, metrics).amount > 0:
            best = entry
    return best


def _why_behind(entry: _Entry, leader: _Entry, metrics: tuple[Metric, ...]) -> str:
    """Say why a trial with a better score than the best node's is not the best."""
    found, first = gain(entry.result.outcome.metrics, leader.result.outcome.metrics, metrics), metrics[0]
    if found.amount <= 0 and found.metric:
        decided = f"{found.metric.name} decided" if found.metric != first else "the older one stays"
        return f"within the tolerance of {first.tolerance:g} in {first.name}: {decided}"
    return "not better in pairs" if entry.node.effect else "measured only once"


class Cohort(Record):
    """Results that are comparable only with each other."""

    fingerprint: str
    machine: str
    """How that machine differs from the present one."""
    places: tuple[LeaderboardRow, ...]


def other_cohorts(history: History, run: int, top: int, rated: RatedNodes | None = None) -> list[Cohort]:
    """List the other cohorts in the order they were first seen, each with its `top` best nodes.

    `rated` are the nodes of the run, where they are known.
    """
    record = history.runs[run]
    seen: dict[str, None] = {}
    for node in (rated or rated_nodes(history, run)).nodes:
        if node.ending is not None:
            seen[node.fingerprint] = None
            if node.record:
                seen |= dict.fromkeys(node.record.other_fingerprints)
    cohorts = (
        Cohort(
            fingerprint,
            machine_description(record, fingerprint),
            tuple(leaderboard(history, run, top, fingerprint)),
        )
        for fingerprint in seen
        if fingerprint != Cohorts.of(record).fingerprint
    )
    return [cohort for cohort in cohorts if cohort.places]


_LONGEST_METRIC = 16


def leaderboard_text(
    rows: Sequence[LeaderboardRow], metric: str, columns: int = 80, terminal: Terminal | None = None
) -> str:
    terminal = terminal or Terminal()
    if not rows:
        return "no results yet"
    scores = ScoreText.of((row.score for row in rows), (row.over_baseline for row in rows), rows[0].noise)
    names = max(4, *(len(row.node.name) for row in rows))
    values = max(max(width(scores.score(row.score)) for row in rows), min(width(metric), _LONGEST_METRIC))
    head = f"{'':>3}  {'node':<{names}}  {pad(metric, values, right=True)}  {'better by':>9}"
    room = columns - width(head) - 2
    remarks = max(width(node_remark(row.node, row.merged, _remark(row))) for row in rows)
    changes = ChangeLine.of(rows, room - remarks - 1 if remarks else room)
    lines = [terminal.paint(cut(f"{head}  {changes.head}", columns).rstrip(), "dim")]
    for row in rows:
        name = row.node.name.ljust(names)
        better = scores.change(row.over_baseline) if row.over_baseline else ""
        line = f"{row.rank:>3}  {name}  {scores.score(row.score):>{values}}  {better:>9}"
        remark, change = node_remark(row.node, row.merged, _remark(row)), changes.text(row)
        note = " ".join(filter(None, (change, remark) if changes.table else (remark, change)))
        text = cut(note, room) if room > 3 else ""
        lines.append((terminal.paint(line, "best" if row.rank == 1 else "") + "  " + text).rstrip())
    for why, listed in _behind(rows).items():
        have = "has a better" if len(listed) == 1 else "have a better"
        text = f"{', '.join(listed)} {have} {metric}, but {why}"
        lines += [terminal.paint(line, "dim") for line in wrap(text, columns)]
    return terminal.render("\n".join(lines))


def _behind(rows: Sequence[LeaderboardRow]) -> dict[str, list[str]]:
    """List, by the reason, the nodes that are not the best although their scores are better."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.why_behind:
            found.setdefault(row.why_behind, []).append(row.node.name)
    return found


def _remark(row: LeaderboardRow) -> str:
    is_claimed = row.over_baseline is not None and row.node.verdict is Verdict.KEPT
    if is_claimed and row.over_baseline and row.over_baseline.by_clock:
        if row.over_baseline.is_refuted:
            return "not by the clock"
        return "also by the clock" if row.over_baseline.by_clock.is_certain else "not certain by the clock"
    return "not confirmed" if is_claimed and row.over_baseline and row.over_baseline.is_confirmed is False else ""


def other_cohorts_text(
    cohorts: Sequence[Cohort], metric: str, columns: int = 80, terminal: Terminal | None = None
) -> str:
    """Format the leaderboards of other machines, each under its own heading."""
    terminal = terminal or Terminal()
    parts = []
    for cohort in cohorts:
        heading = wrap(f"on another machine, not comparable with the above: {cohort.machine}", columns)
        rows = leaderboard_text(cohort.places, metric, columns, terminal)
        parts.append("\n".join([*(terminal.paint(line, "strong") for line in heading), rows]))
    return terminal.render("\n\n".join(parts))
