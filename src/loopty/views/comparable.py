"""Results are compared under one fingerprint, never across two."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.domain.ids import NodeId
from loopty.domain.objective import Metric, score_metric
from loopty.domain.outcome import Verdict
from loopty.domain.pool import SEARCH_POOLS, Pool
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.record.node_record import Node, Result
from loopty.record.run_record import Run
from loopty.record.verdicts import Incumbents

UNRANKED = (None, Verdict.REJECTED, Verdict.QUARANTINED, Verdict.HELD)


def comparable_result(node: Node, fingerprint: str) -> Result | None:
    """The node's result that a ranking under this fingerprint may use: finished and judged; or None."""
    result = node.result(fingerprint)
    return result if result and result.outcome.is_finished and node.verdict not in UNRANKED else None


def has_baseline(run: Run) -> bool:
    """Whether the run has a baseline to compare with; until then it has no fingerprint of its own."""
    return Incumbents.of(run, Pool.ATTEMPT).best is not None


def has_only_other_fingerprints(node: Node, run: Run) -> bool:
    """Whether the node has results, but none under the run's present fingerprint."""
    measured = node.outcome is not None and node.outcome.is_finished
    return has_baseline(run) and measured and node.result(Cohorts.of(run).fingerprint) is None


def score(history: History, node: Node, fingerprint: str) -> float | None:
    """The node's value of the metric that lists show, under this fingerprint; or None."""
    result, metrics = node.result(fingerprint), history.metrics(node)
    return result.outcome.metrics.get(score_metric(metrics).name) if result and metrics else None


def run_metric(history: History, run: Run) -> Metric:
    """The metric that lists show and charts draw; before the baseline has one, `score`."""
    metrics = history.metrics(history[run.root])
    return score_metric(metrics) if metrics else Metric("score", run.objective.direction)


def incumbents(history: History, run: Run, fingerprint: str) -> Iterator[NodeId]:
    """The nodes kept under this fingerprint, newest first; each was judged against the one before it."""
    for pool in SEARCH_POOLS:
        node = Incumbents.of(run, pool).by_fingerprint.get(fingerprint)
        while node:
            if history[node].verdict is Verdict.KEPT:
                yield node
            node = history[node].against


def sigma(run: Run, fingerprint: str, metric: str) -> float:
    """The standard deviation of repeated measurements of the same node; 0 when unknown."""
    return Cohorts.of(run).noise.get(fingerprint, {}).get(metric, 0.0)


def machine_description(run: Run, fingerprint: str) -> str:
    """The machine behind a fingerprint, described by how it differs from the run's present machine."""
    if fingerprint == Cohorts.of(run).fingerprint:
        return "the present machine"
    machines = Cohorts.of(run).machines
    there, here = machines.get(fingerprint, {}), machines.get(Cohorts.of(run).fingerprint, {})
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    differences = [f"{name} {there.get(name, 'unknown')}" for name in names]
    return ", ".join(differences) or f"fingerprint {fingerprint or 'unknown'}"
