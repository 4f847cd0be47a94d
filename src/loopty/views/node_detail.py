"""Everything that the record knows of one node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from loopty.domain.evidence import median
from loopty.domain.gate_spec import Gate
from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction
from loopty.domain.pool import Pool
from loopty.domain.space import Value
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.record.node_gates import NodeGates
from loopty.record.node_record import Node
from loopty.record.run_record import Run
from loopty.record.verdicts import Incumbents
from loopty.views.comparable import has_baseline, machine_description, score, sigma
from loopty.views.score_change import ScoreChange, percent_of, score_change


@dataclass(frozen=True, slots=True)
class MetricDetail:
    """One metric that the benchmark reported, the baseline's value beside it."""

    name: str
    value: float
    low: float
    high: float
    """The least and the most of all measurements."""
    baseline: float | None
    """On the same machine, or None."""
    over_baseline: ScoreChange | None
    """Than the baseline; None where the objective gives the metric no direction."""


@dataclass(frozen=True, slots=True)
class OtherResult:
    """What the node gave under another fingerprint than that of its verdict."""

    machine: str
    score: float
    measurements: int


@dataclass(frozen=True, slots=True)
class NodeDetail:
    node: Node
    parent: Node | None
    metrics: tuple[MetricDetail, ...]
    """Those of the objective first."""
    effect_percent: float | None
    """The effect as a share of the rival's score in the same pairs, where there is such a thing."""
    changed_params: Mapping[str, Value | None]
    """Parameters that differ from the parent's, with their value there; None where it had none."""
    is_best: bool
    gates: tuple[Gate, ...]
    """Those of the task first, then those added to the node and above it."""
    other_machine: str
    """What is not the same as on the run's present machine, where it was measured on another one."""
    other_results: tuple[OtherResult, ...]


def detail(history: History, node: NodeId, gates: tuple[Gate, ...] = ()) -> NodeDetail:
    """`gates` are those of the task."""
    found = history[node]
    run = history.runs[node.run]
    parent = history[node.parent] if node.parent else None
    return NodeDetail(
        found,
        parent,
        _metric_details(history, run, found),
        _effect_percent(found),
        _param_changes(found, parent),
        Incumbents.of(run, Pool.ATTEMPT).best == node,
        (*gates, *NodeGates.of(run).gates_of(node)),
        _other_machine(run, found),
        tuple(_other_results(history, run, found)),
    )


def _metric_details(history: History, run: Run, node: Node) -> tuple[MetricDetail, ...]:
    if node.outcome is None:
        return ()
    judged = {metric.name: metric.direction for metric in history.metrics(node)}
    directions: dict[str, Direction] = {**node.outcome.directions, **judged}
    reported = node.outcome.metrics
    names = [name for name in judged if name in reported]
    names += [name for name in reported if name not in judged]
    fingerprint = node.outcome.fingerprint
    beside = history[run.root].result(fingerprint) if node.id != run.root else None
    rows = []
    for name in names:
        value = reported[name]
        samples = [sample[name] for sample in node.samples if name in sample] or [value]
        baseline = beside.outcome.metrics.get(name) if beside else None
        better = None
        if baseline is not None and name in directions:
            better = score_change(value, baseline, directions[name], sigma(run, fingerprint, name))
        rows.append(MetricDetail(name, value, min(samples), max(samples), baseline, better))
    return tuple(rows)


def _effect_percent(node: Node) -> float | None:
    effect, duel = node.effect, node.pairing
    if effect is None or duel is None:
        return None
    theirs = [sample[effect.metric] for sample in duel.theirs if effect.metric in sample]
    return percent_of(effect.amount, median(theirs), duel.noise.get(effect.metric, 0.0)) if theirs else None


def _other_machine(run: Run, node: Node) -> str:
    if node.outcome is None or node.outcome.fingerprint == Cohorts.of(run).fingerprint or not has_baseline(run):
        return ""
    return machine_description(run, node.outcome.fingerprint)


def _other_results(history: History, run: Run, node: Node) -> Iterator[OtherResult]:
    for fingerprint, result in node.other_fingerprints.items():
        if (found := score(history, node, fingerprint)) is not None:
            yield OtherResult(machine_description(run, fingerprint), found, len(result.samples))


def _param_changes(node: Node, parent: Node | None) -> dict[str, Value | None]:
    if parent is None:
        return {}
    return {
        name: parent.params.get(name) for name, value in node.params.items() if parent.params.get(name) != value
    }
