"""Keep, discard, or measure again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopty.domain.evidence import noise_floor
from loopty.domain.ids import NodeId
from loopty.domain.objective import Gain, Metric, Metrics, gain
from loopty.domain.outcome import Ending, Outcome, Pool, Verdict
from loopty.domain.task import Noise
from loopty.engine.pairs import MeasureAgain, Rules, judge_pairs, sigma
from loopty.record.events import NodeJudged
from loopty.record.history import History
from loopty.record.records import Node, Result, Run
from loopty.record.samples import ENOUGH_TO_VARY


def judge(history: History, subject: NodeId, noise: Noise, affordable: bool = True) -> NodeJudged | MeasureAgain:
    """What follows from everything measured of a node so far.

    `affordable` says whether the budget has room for another measurement.
    """
    node = history[subject]
    outcome, run = node.outcome, history.runs[subject.run]
    assert outcome is not None
    if not outcome.is_finished:
        return _without_result(subject, outcome, "")
    if node.fault:
        return _without_result(subject, node.fault, "measured again: ")
    metrics = history.counting_metrics(subject.run) or run.objective.counting_metrics(outcome.metrics, outcome.directions)
    if subject == run.root:
        return _baseline(node, metrics[0], noise, affordable)
    champion = run.account(node.pool).champions.get(outcome.fingerprint)
    incumbent = history[champion].result(outcome.fingerprint) if champion else None
    if champion is None or incumbent is None:
        return NodeJudged(subject, Verdict.INCONCLUSIVE, _incomparable(run, outcome))
    rules = Rules(metrics, noise, affordable, run.seed)
    if node.pairing and node.pairing.rival == champion:
        return judge_pairs(subject, node.pairing, rules)
    return _judge_first_result(node, champion, incumbent, run.floors.get(outcome.fingerprint, {}), rules)


def apply_review(node: Node, ruled: NodeJudged, review: str) -> NodeJudged | None:
    """The verdict with the verifier's say in it; None where it is still to be asked.

    It can take from what the metric gave, and never add to it. The control is the yardstick, and is not reviewed.
    """
    searching = node.id.parent is not None and node.pool is Pool.ATTEMPT
    if review == "off" or ruled.verdict is not Verdict.KEPT or not searching:
        return ruled
    if node.review is None:
        return None
    if node.review.passed:
        return ruled
    if node.review.passed is None:
        return replace(ruled, reason=f"{ruled.reason}; not reviewed: {node.review.reason}")
    if review == "reject":
        return NodeJudged(node.id, Verdict.REJECTED, f"the verifier: {node.review.reason}", ruled.against)
    return replace(ruled, reason=f"{ruled.reason}; the verifier objects: {node.review.reason}")


def _without_result(subject: NodeId, outcome: Outcome, when: str) -> NodeJudged:
    if outcome.ending in (Ending.REFUSED, Ending.TAMPERED):
        return NodeJudged(subject, Verdict.REJECTED, f"{when}{outcome.reason}")
    return NodeJudged(subject, Verdict.DISCARDED, f"{when}{outcome.ending}: {outcome.reason}")


def is_noise_known(samples: Sequence[Metrics], noise: Noise) -> bool:
    """Whether so many results tell how much they vary."""
    if noise.repeat == "never":
        return bool(samples)
    return len(samples) >= (ENOUGH_TO_VARY if _are_equal(samples) else noise.baseline)


def _are_equal(samples: Sequence[Metrics]) -> bool:
    return all(sample == samples[0] for sample in samples)


def _baseline(node: Node, metric: Metric, noise: Noise, affordable: bool) -> NodeJudged | MeasureAgain:
    if affordable and not is_noise_known(node.samples, noise):
        return MeasureAgain(node.id)
    values = [sample[metric.name] for sample in node.samples]
    measured = f"{values[0]:g}"
    if not _are_equal(node.samples):
        measured = f"{min(values):g} to {max(values):g} in {len(values)} measurements"
    elif len(values) > 1:
        measured += f", {len(values)} times the same"
    return NodeJudged(node.id, Verdict.KEPT, f"the first result: {metric.name} {measured}")


def _judge_first_result(
    node: Node, champion: NodeId, incumbent: Result, floor: Mapping[str, float], rules: Rules
) -> NodeJudged | MeasureAgain:
    """A first look: worse is worse; what looks better is seen again, alone where nothing varies, else in pairs."""
    assert node.outcome is not None
    mine, theirs = node.outcome.metrics, incumbent.outcome.metrics
    found = gain(mine, theirs, rules.metrics)
    words = _comparison(found, mine, theirs, champion)
    if found.amount <= 0:
        return NodeJudged(node.id, Verdict.DISCARDED, words, champion)
    if rules.noise.repeat == "never":
        return NodeJudged(node.id, Verdict.KEPT, words, champion)
    varies = sigma(found, rules.metrics, _observed_noise(floor, node.samples, incumbent.samples)) > 0
    if not varies and len(node.samples) > 1:
        return NodeJudged(node.id, Verdict.KEPT, words, champion)
    if not rules.affordable:
        return NodeJudged(
            node.id, Verdict.INCONCLUSIVE, f"{words}; no measurement is left to see it again", champion
        )
    if not varies:
        return MeasureAgain(node.id)  # the benchmark does not vary, but the candidate may have drawn a lucky number
    return MeasureAgain(node.id if node.pairing else champion, champion)


def _observed_noise(floor: Mapping[str, float], *samples: Sequence[Metrics]) -> dict[str, float]:
    """The noise seen anywhere: a candidate may bring some to a benchmark that had none.

    It tells whether to compare in pairs, never how to bet on them: that must not depend on what the pairs gave.
    """
    floors = [floor, *map(noise_floor, samples)]
    return {name: max(one.get(name, 0.0) for one in floors) for name in {**floors[1], **floor}}


def _comparison(found: Gain, mine: Metrics, theirs: Metrics, champion: NodeId) -> str:
    word = "better" if found.amount > 0 else "worse" if found.amount < 0 else "no better"
    if found.metric is None:
        return f"{word}: the weighted sum by {found.amount:.6g}{champion.of_id}"
    name = found.metric.name
    return f"{word}: {name} {mine[name]:.6g} against {theirs[name]:.6g}{champion.of_id}"


def _incomparable(run: Run, outcome: Outcome) -> str:
    here, there = run.machines.get(outcome.fingerprint, {}), run.machines.get(run.fingerprint, {})
    differing = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    named = f" ({', '.join(differing)} differ)" if differing else ""
    return f"measured under another fingerprint than the incumbent{named}: not comparable, see `loopty rebaseline`"
