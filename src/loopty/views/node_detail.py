"""Everything the record knows about one node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from loopty.domain.evidence import median
from loopty.domain.gate_spec import Gate
from loopty.domain.ids import NodeId
from loopty.domain.objective import WEIGHTED_SUM, Direction, Metric, is_weighted
from loopty.domain.pool import Pool
from loopty.domain.space import Value
from loopty.kit.records import Record
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.record.node_gates import NodeGates
from loopty.record.node_record import Node
from loopty.record.run_record import Run
from loopty.record.verdicts import Incumbents
from loopty.views.comparable import comparable_result, has_baseline, machine_description, score, sigma
from loopty.views.over_baseline import over_baseline
from loopty.views.over_parent import OverParent, over_parent
from loopty.views.param_changes import param_changes
from loopty.views.score_change import ScoreChange, percent_of, score_change


class MetricDetail(Record):
    """One metric that the benchmark reported, beside the baseline's value."""

    name: str
    value: float
    low: float
    high: float
    """The smallest and the largest of all measurements."""
    baseline: float | None
    """Measured on the same machine; otherwise None."""
    over_baseline: ScoreChange | None
    """The change over the baseline; None without a baseline value or without a direction of the metric."""
    noise: float
    """Of one measurement; 0 where results do not vary or that is unknown."""


class OtherResult(Record):
    """A result of the node under another fingerprint than that of its verdict."""

    machine: str
    score: float
    measurements: int


class NodeDetail(Record):
    """A node, its parent, its results and what applies to it."""

    node: Node
    parent: Node | None
    metrics: tuple[MetricDetail, ...]
    """Metrics of the objective first."""
    effect_percent: float | None
    """The effect in percent of the incumbent's score in the same pairs; None if that has no meaning."""
    over_parent: OverParent | None
    """The change over the parent; None without one, and where the two were not measured on the same machine."""
    changed_params: Mapping[str, Value | None]
    """Parameters that differ from the parent's, with the parent's value; None if it had none."""
    is_best: bool
    gates: tuple[Gate, ...]
    """Gates of the task first, then those added to the node or to its ancestors."""
    other_machine: str
    """How the node's machine differs from the run's present one; empty if it is the same."""
    other_results: tuple[OtherResult, ...]
    merged: tuple[str, ...]
    """The names of its further parents."""
    against_handle: int
    """The handle of the incumbent that the node was compared with; 0 where there was none."""


def detail(history: History, node: NodeId, gates: tuple[Gate, ...] = ()) -> NodeDetail:
    """What is known about the node; `gates` are the gates of the task."""
    record = history[node]
    run = history.runs[node.run]
    parent = history[node.parent] if node.parent else None
    return NodeDetail(
        record,
        parent,
        _metric_details(history, run, record),
        _effect_percent(record),
        over_parent(history, record),
        param_changes(record, parent),
        Incumbents.of(run, Pool.ATTEMPT).best == node,
        (*gates, *NodeGates.of(run).gates_of(node)),
        _other_machine(run, record),
        tuple(_other_results(history, run, record)),
        tuple(map(history.name, record.merged)),
        history.handle(record.against) if record.against else 0,
    )


def _metric_details(history: History, run: Run, node: Node) -> tuple[MetricDetail, ...]:
    if node.outcome is None:
        return ()
    judged = {metric.name: metric.direction for metric in history.metrics(node)}
    directions: dict[str, Direction] = {**node.outcome.directions, **judged}
    reported = node.outcome.metrics
    names = [name for name in judged if name in reported]
    if is_weighted(history.metrics(node)) and WEIGHTED_SUM in reported:
        judged[WEIGHTED_SUM] = directions[WEIGHTED_SUM] = Direction.MAX
        names.insert(0, WEIGHTED_SUM)
    names += [name for name in reported if name not in judged]
    fingerprint = node.outcome.fingerprint
    root = history[run.root].result(fingerprint) if node.id != run.root else None
    rows = []
    for name in names:
        value = reported[name]
        samples = [sample[name] for sample in node.samples if name in sample] or [value]
        baseline, change = root.outcome.metrics.get(name) if root else None, None
        noise = sigma(run, fingerprint, name)
        if baseline is not None and name in judged and comparable_result(node, fingerprint):
            change = over_baseline(history, node.id, fingerprint, Metric(name, directions[name]))
        elif baseline is not None and name in directions:
            change = score_change(value, baseline, directions[name], noise)
        rows.append(MetricDetail(name, value, min(samples), max(samples), baseline, change, noise))
    return tuple(rows)


def _effect_percent(node: Node) -> float | None:
    effect, pairing = node.effect, node.pairing
    if effect is None or pairing is None:
        return None
    theirs = [sample[effect.metric] for sample in pairing.theirs if effect.metric in sample]
    return percent_of(effect.amount, median(theirs), pairing.noise.get(effect.metric, 0.0)) if theirs else None


def _other_machine(run: Run, node: Node) -> str:
    if node.outcome is None or node.outcome.fingerprint == Cohorts.of(run).fingerprint or not has_baseline(run):
        return ""
    return machine_description(run, node.outcome.fingerprint)


def _other_results(history: History, run: Run, node: Node) -> Iterator[OtherResult]:
    for fingerprint, result in node.other_fingerprints.items():
        if (value := score(history, node, fingerprint)) is not None:
            yield OtherResult(machine_description(run, fingerprint), value, len(result.samples))
