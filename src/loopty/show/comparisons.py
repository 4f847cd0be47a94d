"""How much better a node is than the baseline or its parent; only under one fingerprint."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping

from loopty.domain.counting import CLOCK_METRIC, is_counted
from loopty.domain.evidence import median, paired_estimate
from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, Metric, Statistic, score_metric
from loopty.domain.space import Value
from loopty.domain.trial import SEARCH_POOLS, Effect, Integrity, Pool, Verdict
from loopty.judge.revisions import estimate_in_statistic, is_varying
from loopty.kit.records import Record, replace
from loopty.record.history import History
from loopty.record.node_record import Node, Pairing, Result
from loopty.record.run_record import Run
from loopty.record.trials import Cohorts
from loopty.record.verdicts import Confirmation, Incumbents

SIGMAS = 3.0
"""A difference within this many standard deviations may be noise."""


class ScoreChange(Record):
    """Positive is better, whether the metric is maximised or minimised."""

    amount: float
    percent: float | None
    """Of the older score; None if a percentage would be meaningless."""
    low: float | None = None
    high: float | None = None
    """The interval of the amount, where pairs were measured for it."""
    pairs: int = 0
    is_confirmed: bool | None = None
    """Whether fresh pairs confirm the change; None where nothing varies, so that there is nothing to confirm."""
    statistic: Statistic = Statistic.MEDIAN
    """What of all runs it is the change of."""
    by_clock: ScoreChange | None = None
    """Of counted instructions: the change of the CPU time in fresh pairs, once there are any."""

    @property
    def is_refuted(self) -> bool:
        """Say whether the clock shows no gain where the count shows one."""
        return self.by_clock is not None and self.amount > 0 >= self.by_clock.amount

    @property
    def is_certain(self) -> bool:
        """Say whether the interval excludes that there is no gain."""
        return self.low is not None and self.low > 0


def score_change(score: float, older: float, direction: Direction, sigma: float = 0.0) -> ScoreChange:
    """Compute the change from the older score; `sigma` is the noise of the older score, 0 if unknown."""
    # Scores may be as large as floats get; a larger difference is reported as the largest float.
    amount = max(-sys.float_info.max, min(direction.sign * (score - older), sys.float_info.max))
    changes_sign = min(score, older) < 0 < max(score, older)
    return ScoreChange(amount, None if changes_sign else percent_of(amount, older, sigma))


def is_far_from_zero(score: float, sigma: float) -> bool:
    """Say whether noise alone could not make the score zero, so that shares of it mean something."""
    return abs(score) > SIGMAS * sigma


def percent_of(amount: float, whole: float, sigma: float = 0.0) -> float | None:
    """Return the amount in percent of the whole; None if noise alone makes the whole zero, or beyond a float."""
    if not is_far_from_zero(whole, sigma):
        return None
    percent = 100 * amount / abs(whole)
    return percent if math.isfinite(percent) else None


UNRANKED = (None, Verdict.REJECTED, Verdict.QUARANTINED, Verdict.HELD)


def comparable_result(node: Node, fingerprint: str) -> Result | None:
    """Return the node's result that a ranking under this fingerprint may use: finished and judged; or None."""
    result = node.result(fingerprint)
    return result if result and result.outcome.is_finished and node.verdict not in UNRANKED else None


def has_baseline(run: Run) -> bool:
    """Say whether the run has a baseline to compare with; until then it has no fingerprint of its own."""
    return Incumbents.of(run, Pool.ATTEMPT).best is not None


def has_only_other_fingerprints(node: Node, run: Run) -> bool:
    """Say whether the node has results, but none under the run's present fingerprint."""
    measured = node.outcome is not None and node.outcome.is_finished
    return has_baseline(run) and measured and node.result(Cohorts.of(run).fingerprint) is None


def score(history: History, node: Node, fingerprint: str) -> float | None:
    """Return the node's value of the metric that lists show, under this fingerprint; or None."""
    result, metrics = node.result(fingerprint), history.metrics(node)
    return result.outcome.metrics.get(score_metric(metrics).name) if result and metrics else None


def run_metric(history: History, run: Run) -> Metric:
    """Return the metric that lists show and charts draw; before the baseline has one, `score`."""
    metrics = history.metrics(history[run.root])
    return score_metric(metrics) if metrics else Metric("score", run.objective.direction)


def incumbents(history: History, run: Run, fingerprint: str) -> Iterator[NodeId]:
    """Yield the nodes kept under this fingerprint, newest first; each was judged against the one before it."""
    for pool in SEARCH_POOLS:
        node = Incumbents.of(run, pool).by_fingerprint.get(fingerprint)
        while node:
            if history[node].verdict is Verdict.KEPT:
                yield node
            node = history[node].against


def sigma(run: Run, fingerprint: str, metric: str) -> float:
    """Return the standard deviation of repeated measurements of the same node; 0 when unknown."""
    return Cohorts.of(run).noise.get(fingerprint, {}).get(metric, 0.0)


def machine_description(run: Run, fingerprint: str) -> str:
    """Describe the machine behind a fingerprint by how it differs from the run's present machine."""
    if fingerprint == Cohorts.of(run).fingerprint:
        return "the present machine"
    machines = Cohorts.of(run).machines
    there, here = machines.get(fingerprint, {}), machines.get(Cohorts.of(run).fingerprint, {})
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    differences = [f"{name} {there.get(name, 'unknown')}" for name in names]
    return ", ".join(differences) or f"fingerprint {fingerprint or 'unknown'}"


# Two scores that were measured hours apart differ by what the machine did in between. So where measurements vary,
# the change is that of pairs: fresh ones of the node and the baseline, made to confirm it, or else, unconfirmed,
# the sum of the effects by which it and its predecessors were kept.


def over_baseline(history: History, node: NodeId, fingerprint: str, metric: Metric) -> ScoreChange | None:
    """Return the node's change over the baseline under this fingerprint; None for the baseline or no results."""
    run = history.runs[node.run]
    result, baseline = (comparable_result(history[other], fingerprint) for other in (node, run.root))
    if node == run.root or result is None or baseline is None:
        return None
    noise = sigma(run, fingerprint, metric.name)
    older = baseline.outcome.metrics[metric.name]
    if is_counted(baseline.outcome.metrics):
        change = score_change(result.outcome.metrics[metric.name], older, metric.direction, noise)
        clock = _change_in_fresh_pairs(history, node, fingerprint, CLOCK_METRIC)
        return replace(change, by_clock=clock, is_confirmed=None if clock else False)
    if not is_varying(history, node, fingerprint, metric.name):
        return score_change(result.outcome.metrics[metric.name], older, metric.direction, noise)
    if confirmed := _change_in_fresh_pairs(history, node, fingerprint, metric):
        return confirmed
    amount = _sum_of_effects(history, node, metric)
    if amount is None:
        amount = score_change(result.outcome.metrics[metric.name], older, metric.direction).amount
    return ScoreChange(amount, percent_of(amount, older, noise), is_confirmed=False)


def _change_in_fresh_pairs(history: History, node: NodeId, fingerprint: str, metric: Metric) -> ScoreChange | None:
    run = history.runs[node.run]
    pairing = Confirmation.of(run).pairing_of(node, fingerprint)
    if pairing is None:
        return None
    pairs = [(mine[metric.name], theirs[metric.name]) for mine, theirs in pairing.pairs_so_far]
    if run.objective.statistic is not Statistic.MEDIAN:
        told = estimate_in_statistic(pairing, run.objective.statistic, metric)
        if told is None:
            return None
        statistic = run.objective.statistic
        older = statistic.of([theirs for _, theirs in pairs], metric.direction)
        share = percent_of(told.amount, older, sigma(run, fingerprint, metric.name))
        ends = told.low, told.high, told.pairs
        return ScoreChange(told.amount, share, *ends, is_confirmed=True, statistic=statistic)
    # In units of each pair's own baseline: on a machine that changes its speed, 20 % is many amounts.
    has_scale = all(is_far_from_zero(theirs, sigma(run, fingerprint, metric.name)) for _, theirs in pairs)
    sign, units = metric.direction.sign, [abs(theirs) if has_scale else 1.0 for _, theirs in pairs]
    gains = [sign * (mine - theirs) / unit for (mine, theirs), unit in zip(pairs, units, strict=True)]
    found = paired_estimate(gains)
    if found is None:
        return None
    unit, percent = median(units), 100 * found.amount if has_scale else None
    low, high = found.low * unit, found.high * unit
    return ScoreChange(found.amount * unit, percent, low, high, found.pairs, is_confirmed=True)


def _sum_of_effects(history: History, node: NodeId, metric: Metric) -> float | None:
    """Add the effects from the baseline to the node; None if one of them is not in this metric."""
    root, total, place = history.runs[node.run].root, 0.0, history[node]
    while place.id != root:
        if place.effect is None or place.effect.metric != metric.name or place.against is None:
            return None
        total, place = total + place.effect.amount, history[place.against]
        if place.verdict is not Verdict.KEPT:
            return None
    return total


class RunsBeside(Record):
    """What the median hides: the newest runs of a node beside those of the baseline. Positive is better."""

    runs: int
    baseline_runs: int
    mean_percent: float
    worst_percent: float
    """The worst run beside the worst of the baseline."""


_FEWEST_RUNS = 5


def _runs_beside(history: History, node: NodeId, fingerprint: str, metric: Metric) -> RunsBeside | None:
    """Compare mean and worst run with those of the baseline; None with few runs, or where results do not vary."""
    run, found = history.runs[node.run], list[list[float]]()
    pairing = Confirmation.of(run).pairing_of(node, fingerprint) or Pairing(run.root)
    for place, fresh in ((node, pairing.mine), (run.root, pairing.theirs)):
        result = comparable_result(history[place], fingerprint)
        samples = (*(result.samples if result else ()), *fresh)
        found.append([sample[metric.name] for sample in samples if metric.name in sample])
    mine, theirs = found
    if min(len(mine), len(theirs)) < _FEWEST_RUNS or not is_varying(history, node, fingerprint, metric.name):
        return None
    direction, worst = metric.direction, max if metric.direction is Direction.MIN else min
    mean = score_change(Statistic.MEAN.of(mine, direction), Statistic.MEAN.of(theirs, direction), direction)
    last = score_change(worst(mine), worst(theirs), direction)
    if mean.percent is None or last.percent is None:
        return None
    return RunsBeside(len(mine), len(theirs), mean.percent, last.percent)


class AgainstBaseline(Record):
    """A node's score and its change over the baseline."""

    node: NodeId
    score: float
    over_baseline: ScoreChange | None
    """None for the baseline itself, and when the baseline was not measured."""
    params: Mapping[str, Value]
    edited: bool
    """Whether its files differ from the baseline's."""
    integrity: Integrity | None
    weakness: str
    """Why the integrity is weak, in words."""
    handle: int = 0
    runs: RunsBeside | None = None
    """None for the baseline, and where results do not vary."""


def against_baseline(
    history: History, node: NodeId | None, fingerprint: str, metric: Metric
) -> AgainstBaseline | None:
    """Compare the node under this fingerprint; None without a node or without a result there."""
    record = history[node] if node else None
    result = comparable_result(record, fingerprint) if record else None
    if record is None or result is None:
        return None
    change = over_baseline(history, record.id, fingerprint, metric)
    edited = record.tree != history[history.runs[record.id.run].root].tree
    outcome = result.outcome
    return AgainstBaseline(
        node=record.id,
        score=outcome.metrics[metric.name],
        over_baseline=change,
        params=record.params,
        edited=edited,
        integrity=outcome.integrity,
        weakness=outcome.weakness,
        handle=record.handle,
        runs=_runs_beside(history, record.id, fingerprint, metric) if change else None,
    )


class OverParent(Record):
    """A node's change over its parent."""

    change: ScoreChange
    is_paired: bool
    """Whether the two were compared in pairs; else the change contains what the machine did in between."""
    noise: float
    """Of one measurement; 0 where results do not vary."""

    @property
    def is_within_noise(self) -> bool:
        """Say whether the change may be only noise: measured apart, and no larger than two results differ."""
        return not self.change.amount or (not self.is_paired and abs(self.change.amount) <= SIGMAS * self.noise)


def over_parent(history: History, node: Node, fingerprint: str | None = None) -> OverParent | None:
    """Return the node's change over its parent in the most important metric; None without comparable results.

    Both are compared under one fingerprint, by default that of the node's verdict.
    """
    metrics = history.metrics(node)
    if node.id.parent is None or node.outcome is None or not metrics:
        return None
    under, metric = node.outcome.fingerprint if fingerprint is None else fingerprint, score_metric(metrics)
    mine, parent = node.result(under), history[node.id.parent].result(under)
    if not (mine and parent and mine.outcome.is_finished):
        return None
    if metric.name not in mine.outcome.metrics or metric.name not in parent.outcome.metrics:
        return None
    noise = sigma(history.runs[node.id.run], under, metric.name)
    is_paired = node.against == node.id.parent and under == node.outcome.fingerprint
    scores = mine.outcome.metrics[metric.name], parent.outcome.metrics[metric.name]
    return over_score(*scores, metric, noise, node.effect if is_paired else None)


def over_score(score: float, older: float, metric: Metric, noise: float, effect: Effect | None) -> OverParent:
    """Return the change from the parent's score; `effect` is from their pairs, if they were compared in pairs."""
    if effect and effect.metric == metric.name:
        change = ScoreChange(effect.amount, percent_of(effect.amount, older, noise))
        return OverParent(change, is_paired=True, noise=noise)
    return OverParent(score_change(score, older, metric.direction, noise), is_paired=False, noise=noise)
