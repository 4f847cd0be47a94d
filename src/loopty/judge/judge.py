"""Keep, discard, or measure again."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.domain import counting
from loopty.domain.ids import NodeId
from loopty.domain.objective import Metric, Metrics, score_metric
from loopty.domain.task import Noise
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.judge.pairs import MeasureAgain, Rules, equal_results_needed, judge_first_result, judge_pairs
from loopty.kit.records import replace
from loopty.record.history import History
from loopty.record.node_record import ENOUGH_TO_VARY, Node, recent_noise
from loopty.record.run_record import Run
from loopty.record.trials import Cohorts
from loopty.record.verdicts import Incumbents, NodeJudged


def judge(history: History, subject: NodeId, noise: Noise, affordable: bool = True) -> NodeJudged | MeasureAgain:
    """Return the verdict that follows from all measurements of a node, or which node to measure again.

    `affordable` says whether the budget has room for another measurement.
    """
    node = history[subject]
    outcome, run = node.outcome, history.runs[subject.run]
    assert outcome is not None
    if not outcome.is_finished:
        return _judge_without_result(subject, outcome)
    if node.fault:
        return _judge_without_result(subject, node.fault, "measured again: ")
    metrics = history.counting_metrics(subject.run)
    metrics = metrics or run.objective.counting_metrics(outcome.metrics, outcome.directions)
    if subject == run.root:
        return _judge_baseline(node, score_metric(metrics), noise, affordable)
    floor = _count_floor(history, run, outcome.fingerprint, metrics)
    if floor:
        noise = replace(noise, repeat="never")  # the next run would count the same
    incumbents = Incumbents.of(run, node.pool)
    incumbent = incumbents.by_fingerprint.get(outcome.fingerprint)
    result = history[incumbent].result(outcome.fingerprint) if incumbent else None
    if incumbent is None or result is None:
        return NodeJudged(subject, Verdict.INCONCLUSIVE, _why_incomparable(run, outcome))
    rival, cohorts = history[incumbent], Cohorts.of(run)
    rules = Rules(
        metrics=metrics,
        noise=noise,
        affordable=affordable,
        secret=run.secret or str(run.seed),
        repeats=cohorts.repeats.get(outcome.fingerprint, ()),
        equal_results=equal_results_needed(node, rival, history[run.root], incumbents, noise.rate),
        floor=floor,
        statistic=run.objective.statistic,
    )
    if node.pairing and node.pairing.incumbent == incumbent:
        return judge_pairs(subject, node.pairing, history.name(incumbent), rules)
    noise_beside = recent_noise(result, cohorts.noise.get(outcome.fingerprint, {}))
    # Where nothing varies, what others do on the machine changes no result.
    rules = replace(rules, is_busy=any(noise_beside.values()) and outcome.was_busy)
    return judge_first_result(node, rival, result, noise_beside, rules)


def apply_review(node: Node, ruling: NodeJudged, review: str) -> NodeJudged | None:
    """Return the verdict after the verifier's review; None if the verifier is still to be asked.

    The verifier can reject what the metric would keep, never the reverse. The control is not reviewed: it is what
    attempts are compared with.
    """
    is_reviewed = node.id.parent is not None and node.pool is Pool.ATTEMPT
    if review == "off" or ruling.verdict is not Verdict.KEPT or not is_reviewed:
        return ruling
    if node.review is None:
        return None
    if node.review.passed:
        return ruling
    if node.review.passed is None and review == "reject":
        # A verifier that cannot be read agrees with nothing: what nobody looked at waits for a person.
        remedy = f"look at `loopty diff {node.name}`, then `loopty node approve {node.name} --why TEXT`"
        return replace(
            ruling, verdict=Verdict.HELD, reason=f"{ruling.reason}; not reviewed: {node.review.reason}; {remedy}"
        )
    if node.review.passed is None:
        return replace(ruling, reason=f"{ruling.reason}; not reviewed: {node.review.reason}")
    if review == "reject":
        return NodeJudged(node.id, Verdict.REJECTED, f"the verifier: {node.review.reason}", ruling.against)
    return replace(ruling, reason=f"{ruling.reason}; the verifier objects: {node.review.reason}")


def is_noise_known(samples: Sequence[Metrics], noise: Noise, is_counted: bool = False) -> bool:
    """Say whether these samples are enough to know how much results vary."""
    if noise.repeat == "never":
        return bool(samples)
    if is_counted and counting.repeats(samples):
        return True
    return len(samples) >= ENOUGH_TO_VARY


def _judge_without_result(subject: NodeId, outcome: Outcome, when: str = "") -> NodeJudged:
    if outcome.ending in (Ending.REFUSED, Ending.STOPPED, Ending.TAMPERED):
        return NodeJudged(subject, Verdict.REJECTED, f"{when}{outcome.reason}")
    return NodeJudged(subject, Verdict.DISCARDED, f"{when}{outcome.ending}: {outcome.reason}")


def _judge_baseline(node: Node, metric: Metric, noise: Noise, affordable: bool) -> NodeJudged | MeasureAgain:
    """Keep a baseline that has a result, once its noise is known."""
    is_counted = node.outcome is not None and counting.is_counted(node.outcome.metrics)
    if affordable and not is_noise_known(node.samples, noise, is_counted):
        return MeasureAgain(node.id)
    values = [sample[metric.name] for sample in node.samples]
    measured = f"{values[0]:g}"
    if not _are_equal(node.samples):
        measured = f"{min(values):g} to {max(values):g} in {len(values)} measurements"
    elif len(values) > 1:
        measured += f", the same {len(values)} times"
    return NodeJudged(node.id, Verdict.KEPT, f"the first result: {metric.name} {measured}")


def _count_floor(history: History, run: Run, fingerprint: str, metrics: Sequence[Metric]) -> float:
    """Return the smallest difference that one count shows; 0 where results are not counted, or counts vary."""
    root = history[run.root]
    known = root.result(fingerprint)
    is_counted = known is not None and counting.is_counted(known.outcome.metrics)
    if known is None or not is_counted or len(metrics) > 1 or not counting.repeats(known.samples):
        return 0.0
    return counting.TOLERANCE * known.outcome.metrics.get(metrics[0].name, 0.0)


def _are_equal(samples: Sequence[Metrics]) -> bool:
    return all(sample == samples[0] for sample in samples)


def _why_incomparable(run: Run, outcome: Outcome) -> str:
    cohorts = Cohorts.of(run)
    here = cohorts.machines.get(outcome.fingerprint, {})
    there = cohorts.machines.get(cohorts.fingerprint, {})
    differing = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    names = f" ({', '.join(differing)} differ)" if differing else ""
    how = "not comparable, see `loopty measure rebaseline`"
    return f"measured under another fingerprint than the incumbent{names}: {how}"
