"""Is a candidate better than the incumbent? A first look, then pairs until the evidence is enough."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

from loopty.domain.evidence import RUNS_FOR_TAILS, Evidence, evidence, median, noise_floor
from loopty.domain.ids import NodeId
from loopty.domain.objective import (
    WEIGHTED_SUM,
    Gain,
    Metric,
    Metrics,
    Statistic,
    gain,
    gains_beyond_tolerance,
    is_weighted,
    score_metric,
    statistic_gain,
)
from loopty.domain.task import Noise
from loopty.domain.trial import Effect, Verdict
from loopty.kit.records import Record, replace
from loopty.record.node_record import ENOUGH_TO_VARY, Node, Pairing, Result
from loopty.record.trials import Repeat
from loopty.record.verdicts import Incumbents, NodeJudged

MAX_FAULTS = 3
"""An incumbent that fails its repeats so many times loses its place; a baseline cannot."""
_LARGEST_LOG = 300.0
_CERTAIN = 1e3
"""A difference in a metric that never varied, in units of noise."""


class MeasureAgain(Record):
    """No verdict yet: measure this node once more. `incumbent` is set while the two are compared in pairs."""

    node: NodeId
    incumbent: NodeId | None = None


class Rules(Record):
    """How two results are compared."""

    metrics: tuple[Metric, ...]
    noise: Noise
    affordable: bool
    """Whether the budget has room for another measurement."""
    secret: str
    """What the order within pairs is drawn from: no candidate may foresee it."""
    repeats: tuple[Repeat, ...] = ()
    """What the same code measured twice in a row: how much results differ by themselves."""
    equal_results: int = 1
    """How often the node must give its result if the benchmark does not vary."""
    is_busy: bool = False
    """Whether others used the machine during the node's first trial."""
    floor: float = 0.0
    """The smallest gain that counts of instructions show."""
    statistic: Statistic = Statistic.MEDIAN
    """What of all runs must be better."""

    @property
    def may_repeat(self) -> bool:
        """Say whether results are measured more than once."""
        return self.noise.repeat != "never"


def judge_pairs(subject: NodeId, pairing: Pairing, rival: str, rules: Rules) -> NodeJudged | MeasureAgain:
    """Return the verdict that the pairs allow, or which node to measure next; `rival` names the incumbent."""
    incumbent, effect = pairing.incumbent, None
    if pairing.mine and len(pairing.mine) == len(pairing.theirs):
        effect, found = _weigh(pairing, rules)
        measured = f"{_amount_text(effect)} in {effect.pairs} pair{'s' * (effect.pairs != 1)}"
        if found.better and rules.statistic is not Statistic.MEDIAN:
            if len(pairing.mine) < RUNS_FOR_TAILS and rules.affordable:
                return MeasureAgain(_next_to_measure(subject, pairing, rules.secret), incumbent)
            return _judge_statistic(subject, pairing, rival, effect, rules)
        if found.better:
            return NodeJudged(subject, Verdict.KEPT, f"better than {rival} by {measured}", incumbent, effect)
        if found.futile or found.exhausted:
            verdict, reason = Verdict.INCONCLUSIVE, f"undecided: better than {rival} by {measured}"
            if found.refuted and effect.amount > 0:
                verdict, reason = Verdict.DISCARDED, f"not better than {rival}: {measured}"
            elif effect.amount <= 0 and pairing.is_disturbed and not found.refuted:
                reason = f"undecided: worse than {rival} by {measured}, while others used the machine"
            elif effect.amount <= 0:
                verdict, reason = Verdict.DISCARDED, f"worse than {rival} by {measured}"
            return NodeJudged(subject, verdict, reason, incumbent, effect)
    if pairing.faults >= MAX_FAULTS:
        why = f"{pairing.faults} measurements beside {rival} gave nothing to compare"
        return NodeJudged(subject, Verdict.INCONCLUSIVE, why, incumbent, effect)
    if not rules.affordable:
        why = "no repeat measurement is left to decide"
        return NodeJudged(subject, Verdict.INCONCLUSIVE, why, incumbent, effect)
    return MeasureAgain(_next_to_measure(subject, pairing, rules.secret), incumbent)


def _judge_statistic(subject: NodeId, pairing: Pairing, rival: str, effect: Effect, rules: Rules) -> NodeJudged:
    """Judge what is better in most pairs by the task's statistic of all of them."""
    over = _in_statistic(pairing, effect, rules)
    measured = f"by {_amount_text(over)} in the {rules.statistic} of {over.pairs} pairs"
    verdict, reason = Verdict.KEPT, f"better than {rival} {measured}"
    if over.amount <= 0:
        verdict, reason = Verdict.DISCARDED, f"worse than {rival} {measured}, though better in most of them"
    elif over.pairs < RUNS_FOR_TAILS:
        verdict = Verdict.INCONCLUSIVE
        reason += f"; no repeat measurement is left, and rare runs take {RUNS_FOR_TAILS} pairs to see"
    return NodeJudged(subject, verdict, reason, pairing.incumbent, over)


def _in_statistic(pairing: Pairing, effect: Effect, rules: Rules) -> Effect:
    """Return the effect in the task's statistic of all runs, in the metric that decided."""
    metric = next((one for one in rules.metrics if one.name == effect.metric), score_metric(rules.metrics))
    mine, theirs = ([sample[metric.name] for sample in samples] for samples in (pairing.mine, pairing.theirs))
    amount = statistic_gain(rules.statistic, metric.direction)(mine, theirs)
    return replace(effect, metric=metric.name, amount=amount, pairs=len(mine))


def noise_of(difference: Gain, metrics: tuple[Metric, ...], noise: Mapping[str, float]) -> float:
    """Return the noise of the metric, or of the weighted sum, that decided."""
    if difference.metric is not None:
        return noise.get(difference.metric.name, 0.0)
    return math.hypot(*((metric.weight or 0.0) * noise.get(metric.name, 0.0) for metric in metrics))


def _weigh(pairing: Pairing, rules: Rules) -> tuple[Effect, Evidence]:
    """Weigh the effect that the pairs show, and its evidence. A tolerance must be exceeded, not just reached."""
    metrics = rules.metrics
    if is_weighted(metrics) or not any(metric.tolerance for metric in metrics):
        return _weigh_gains(pairing, rules)
    rate = rules.noise.rate / len(metrics)
    found = []
    for place, metric in enumerate(metrics):
        gains = gains_beyond_tolerance(pairing.pairs, metrics, place)
        weighed = evidence(gains, pairing.noise.get(metric.name, 0.0), rate, rules.noise.pairs)
        found.append((_effect(metric.name, weighed, rate, metric.tolerance), weighed))
    effect, best = next((one for one in found if one[1].better), max(found, key=lambda one: one[1].wealth))
    futile = all(weighed.futile for _, weighed in found)
    over = all(weighed.futile or weighed.exhausted for _, weighed in found)
    refuted = all(weighed.refuted for _, weighed in found)
    return effect, replace(
        best, futile=not best.better and futile, exhausted=not best.better and over, refuted=refuted
    )


def _weigh_gains(pairing: Pairing, rules: Rules) -> tuple[Effect, Evidence]:
    gains = [gain(mine, theirs, rules.metrics) for mine, theirs in pairing.pairs]
    deciding = {difference.metric for difference in gains if difference.amount} or {rules.metrics[0]}
    if len(deciding) == 1:
        (metric,) = deciding
        if metric and (ratio_noise := pairing.ratio_noise.get(metric.name)):
            return _weigh_ratios(pairing, metric, ratio_noise, rules)
        name = metric.name if metric else WEIGHTED_SUM
        noise = noise_of(Gain(0.0, metric), rules.metrics, pairing.noise)
        amounts = [difference.amount for difference in gains]
        repeats = [abs(gain(one.after, one.before, rules.metrics).amount) for one in rules.repeats]
    else:
        name, noise, repeats = "", 1.0, []
        amounts = [_in_units_of_noise(difference, rules.metrics, pairing.noise) for difference in gains]
    found = evidence(amounts, noise, rules.noise.rate, rules.noise.pairs, repeats)
    return _effect(name, found, rules.noise.rate), found


def _weigh_ratios(pairing: Pairing, metric: Metric, noise: float, rules: Rules) -> tuple[Effect, Evidence]:
    """Weigh the logarithms of the ratios of a positive metric; the effect is stated in its own unit again."""
    pairs = [(mine[metric.name], theirs[metric.name]) for mine, theirs in pairing.pairs]
    sign, level = metric.direction.sign, median([theirs for _, theirs in pairs])
    found = evidence(
        gains=[sign * (_log(mine) - _log(theirs)) for mine, theirs in pairs],
        sigma=noise,
        error_rate=rules.noise.rate,
        most_pairs=rules.noise.pairs,
        repeats=[abs(_log(one.after[metric.name]) - _log(one.before[metric.name])) for one in rules.repeats],
    )

    def amount(log_gain: float) -> float:
        return sign * level * math.expm1(min(sign * log_gain, _LARGEST_LOG))

    return Effect(metric.name, amount(found.stated), found.pairs, rules.noise.rate), found


def _log(value: float) -> float:
    """Return the logarithm; of what is not positive, one below all others: the scale of a bet never changes."""
    return math.log(value) if value > 0 else -_LARGEST_LOG


def _effect(name: str, found: Evidence, error_rate: float, tolerance: float = 0.0) -> Effect:
    """Return the effect as it is stated: the evidence is about what exceeds the tolerance."""
    return Effect(name, found.stated + tolerance, found.pairs, error_rate)


def _in_units_of_noise(difference: Gain, metrics: tuple[Metric, ...], noise: Mapping[str, float]) -> float:
    if unit := noise_of(difference, metrics, noise):
        return difference.amount / unit
    return math.copysign(_CERTAIN, difference.amount) if difference.amount else 0.0


def _next_to_measure(subject: NodeId, pairing: Pairing, secret: str) -> NodeId:
    """Choose what to measure: in a half pair, what is missing; else a fair coin decides which comes first.

    So the order does not influence the signs of the gains, however the machine drifts.
    """
    mine, theirs = len(pairing.mine), len(pairing.theirs)
    if mine != theirs:
        return pairing.incumbent if mine > theirs else subject
    return subject if coin(secret, subject, pairing.incumbent, mine) else pairing.incumbent


def coin(secret: str, *toss: object) -> bool:
    """Toss a fair coin, the same for the same toss of a run."""
    return random.Random(" ".join(map(str, (secret, *toss)))).random() < 0.5


def _amount_text(effect: Effect) -> str:
    return f"{abs(effect.amount):.3g} " + (
        f"in {effect.metric}" if effect.metric else "units of noise over all metrics"
    )


# Chosen by whole simulated nights (docs/research/judge.md).
_LOOKS_PER_REFRESH = 4
"""The incumbent is measured again before this many candidates in a row are discarded at the first look."""
_SHIFTED = 3.0
"""The machine has changed if the newest measurement differs from the record by this many times the noise."""
_FAR_WORSE = 10.0
"""A candidate that loses by so many times the noise beside the incumbent is worse, on a busy machine, too."""
_MOST_REFRESHES = 3
"""Enough to turn the median of the newest five."""
_DIGITS = range(6, 10)
"""Significant digits of a score in a reason, as many as tell two apart; more cannot be read."""


def judge_first_result(
    node: Node, rival: Node, result: Result, noise: Mapping[str, float], rules: Rules
) -> NodeJudged | MeasureAgain:
    """Discard if worse. Repeat if better: the node alone if nothing varies, else in pairs with the incumbent.

    `result` is that of the incumbent, `rival`. Before it discards, it makes sure that the record is of today.
    """
    assert node.outcome is not None
    incumbent, mine, theirs = rival.id, node.outcome.metrics, result.outcome.metrics
    difference = gain(mine, theirs, rules.metrics)
    if node.fresh_rival:
        fresh = {**theirs, **_medians(node.fresh_rival)}
        over_fresh = gain(mine, fresh, rules.metrics)
        if over_fresh.amount > difference.amount:
            difference, theirs = over_fresh, fresh
    reason = _comparison(difference, mine, theirs, rival.name)
    sigma = noise_of(difference, rules.metrics, noise)
    is_worse = difference.amount <= max(sigma * _bar(node, rules), rules.floor)
    if is_worse and not (rules.is_busy and node.pairing):  # asked again: the record is of that busy moment
        # A result of a busy moment is compared with one of the same moment, not with the record.
        is_alone = rules.is_busy and not (node.fresh_rival or node.pairing)
        if rules.may_repeat and rules.affordable and (is_alone or _is_stale(node, rival, result, noise, rules)):
            return MeasureAgain(incumbent)
        is_far = difference.amount < -_FAR_WORSE * sigma and not is_alone
        if rules.is_busy and rules.may_repeat and not is_far:
            why = f"undecided: {reason}, while others used the machine"
            return NodeJudged(node.id, Verdict.INCONCLUSIVE, why, incumbent)
        if 0 < difference.amount <= rules.floor:
            reason += ", which is too little for a count to show"
        elif difference.amount > 0:
            reason += f", which is less than {_bar(node, rules):g} times the noise"
        return NodeJudged(node.id, Verdict.DISCARDED, reason, incumbent)
    if not rules.may_repeat:
        return NodeJudged(node.id, Verdict.KEPT, reason, incumbent)
    # The candidate may vary where nothing else does.
    varies = sigma > 0 or noise_of(difference, rules.metrics, noise_floor(node.samples)) > 0
    if not varies and len(node.samples) >= rules.equal_results:
        return NodeJudged(node.id, Verdict.KEPT, reason, incumbent)
    if not rules.affordable:
        why = f"{reason}; no repeat measurement is left to confirm it"
        return NodeJudged(node.id, Verdict.INCONCLUSIVE, why, incumbent)
    if not varies:
        return MeasureAgain(node.id)  # the benchmark does not vary, but the candidate may draw random numbers
    # The first result has selected the node, so no bet is on it: pairs begin afresh.
    return MeasureAgain(_next_to_measure(node.id, Pairing(incumbent), rules.secret), incumbent)


_STEADY_KEEPS = 3


def equal_results_needed(node: Node, rival: Node, root: Node, incumbents: Incumbents, error_rate: float) -> int:
    """Tell how often a candidate must give its result if the benchmark does not vary.

    Code that has repeated its result does so with other parameters. Other code may toss a coin: once a candidate
    has varied, as many results are needed as a coin gives with at most the error rate. Before that few suffice,
    as the run's winner is measured so often at its end.
    """
    if node.tree in (rival.tree, root.tree) and len(root.samples) >= ENOUGH_TO_VARY:
        return 1
    if incumbents.compared:
        return results_against_a_coin(error_rate)
    return 3 if incumbents.steady_keeps < _STEADY_KEEPS else 2


def results_against_a_coin(error_rate: float) -> int:
    """Tell how many equal results a coin gives with at most this probability."""
    return max(math.ceil(math.log2(1 / error_rate)), 2)


def _bar(node: Node, rules: Rules) -> float:
    """Compute how many times the noise a first result must gain to get pairs."""
    return rules.noise.first_look if rules.may_repeat and not node.pairing else 0.0


def _is_stale(node: Node, rival: Node, result: Result, noise: Mapping[str, float], rules: Rules) -> bool:
    """Say whether the incumbent's record may be of a machine that has changed since.

    The incumbent is measured again after several candidates in a row that lost to its record, and until its newest
    measurement agrees with that.
    """
    if rival.faults_in_row >= MAX_FAULTS or len(node.fresh_rival) >= _MOST_REFRESHES:
        return False
    newest = gain(result.samples[-1], result.outcome.metrics, rules.metrics) if result.samples else Gain(0.0, None)
    sigma = noise_of(newest, rules.metrics, noise)
    if not any(noise.values()):
        return False
    is_due = not node.fresh_rival and rival.first_looks_lost >= _LOOKS_PER_REFRESH - 1
    return is_due or abs(newest.amount) > _SHIFTED * sigma


def _medians(samples: Sequence[Metrics]) -> dict[str, float]:
    return {name: median([sample[name] for sample in samples]) for name in samples[0]}


def _comparison(difference: Gain, mine: Metrics, theirs: Metrics, incumbent: str) -> str:
    word = "better" if difference.amount > 0 else "worse" if difference.amount < 0 else "no better"
    if difference.metric is None:
        return f"{word}: the weighted sum by {difference.amount:.6g} of {incumbent}"
    name = difference.metric.name
    left, right = _texts_apart(mine[name], theirs[name])
    if left == right and difference.amount:
        return f"{word}: {name} {left} ({abs(difference.amount):.2g} {word} than {incumbent})"
    return f"{word}: {name} {left} against {right} of {incumbent}"


def _texts_apart(left: float, right: float) -> tuple[str, str]:
    """Write both numbers in the fewest digits, six or more, that tell them apart; in six if nine do not."""
    digits = next((count for count in _DIGITS if f"{left:.{count}g}" != f"{right:.{count}g}"), _DIGITS[0])
    return f"{left:.{digits}g}", f"{right:.{digits}g}"
