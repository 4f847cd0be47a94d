"""Compare a node with the incumbent in interleaved pairs of measurements, until the evidence is enough."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

from loopty.domain.evidence import Evidence, evidence
from loopty.domain.ids import NodeId
from loopty.domain.objective import WEIGHTED_SUM, Gain, Metric, gain, gains_beyond_tolerance, is_weighted
from loopty.domain.outcome import Effect, Verdict
from loopty.domain.task import Noise
from loopty.kit.records import Record, replace
from loopty.record.node_record import Pairing
from loopty.record.verdicts import NodeJudged

MAX_FAULTS = 3
"""An incumbent that fails its repeats so many times loses its place; a baseline cannot."""
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
    steady_keeps: int = 0
    """How many nodes in a row were kept whose results never varied."""

    @property
    def repeats(self) -> bool:
        """Whether results are measured more than once."""
        return self.noise.repeat != "never"


def judge_pairs(subject: NodeId, pairing: Pairing, rival: str, rules: Rules) -> NodeJudged | MeasureAgain:
    """The verdict that the pairs so far allow, or which node to measure next; `rival` is the incumbent's name."""
    incumbent = pairing.incumbent
    if pairing.mine and len(pairing.mine) == len(pairing.theirs):
        effect, found = _weigh(pairing, rules)
        amount, details = _amount_text(effect), _details_text(effect)
        better = f"better than {rival} by {amount} ({details})"
        if found.better:
            return NodeJudged(subject, Verdict.KEPT, better, incumbent, effect)
        if found.futile:
            reason = f"the first result did not hold in pairs ({amount} against {rival}, {details})"
            return NodeJudged(subject, Verdict.DISCARDED, reason, incumbent, effect)
        if found.exhausted:
            return NodeJudged(subject, Verdict.INCONCLUSIVE, f"perhaps {better}", incumbent, effect)
    if pairing.faults >= MAX_FAULTS:
        why = f"{pairing.faults} measurements beside {rival} gave nothing to compare"
        return NodeJudged(subject, Verdict.INCONCLUSIVE, why, incumbent)
    if not rules.affordable:
        return NodeJudged(subject, Verdict.INCONCLUSIVE, "no repeat measurement is left to decide", incumbent)
    return MeasureAgain(_next_to_measure(subject, pairing, rules.secret), incumbent)


def noise_of(difference: Gain, metrics: tuple[Metric, ...], noise: Mapping[str, float]) -> float:
    """The noise of the metric, or of the weighted sum, that decided."""
    if difference.metric is not None:
        return noise.get(difference.metric.name, 0.0)
    return math.hypot(*((metric.weight or 0.0) * noise.get(metric.name, 0.0) for metric in metrics))


def _weigh(pairing: Pairing, rules: Rules) -> tuple[Effect, Evidence]:
    """The effect that the pairs show, and the evidence for it. A tolerance must be exceeded, not just reached."""
    metrics = rules.metrics
    if is_weighted(metrics) or not any(metric.tolerance for metric in metrics):
        return _weigh_gains(pairing, rules)
    rate = rules.noise.error_rate / len(metrics)
    found = []
    for place, metric in enumerate(metrics):
        gains = gains_beyond_tolerance(pairing.pairs, metrics, place)
        weighed = evidence(gains, pairing.noise.get(metric.name, 0.0), rate, rules.noise.pairs)
        found.append((_effect(metric.name, weighed, rate, metric.tolerance), weighed))
    effect, best = next((one for one in found if one[1].better), max(found, key=lambda one: one[1].wealth))
    futile = all(weighed.futile for _, weighed in found)
    over = all(weighed.futile or weighed.exhausted for _, weighed in found)
    return effect, replace(best, futile=not best.better and futile, exhausted=not best.better and over)


def _weigh_gains(pairing: Pairing, rules: Rules) -> tuple[Effect, Evidence]:
    gains = [gain(mine, theirs, rules.metrics) for mine, theirs in pairing.pairs]
    deciding = {difference.metric for difference in gains if difference.amount} or {rules.metrics[0]}
    if len(deciding) == 1:
        (metric,) = deciding
        name = metric.name if metric else WEIGHTED_SUM
        noise = noise_of(Gain(0.0, metric), rules.metrics, pairing.noise)
        amounts = [difference.amount for difference in gains]
    else:
        name, noise = "", 1.0
        amounts = [_in_units_of_noise(difference, rules.metrics, pairing.noise) for difference in gains]
    found = evidence(amounts, noise, rules.noise.error_rate, rules.noise.pairs)
    return _effect(name, found, rules.noise.error_rate), found


def _effect(name: str, found: Evidence, error_rate: float, tolerance: float = 0.0) -> Effect:
    """The effect as it is stated: the evidence is about what exceeds the tolerance."""
    low, high = (bound + tolerance if math.isfinite(bound) else None for bound in (found.low, found.high))
    return Effect(name, found.stated + tolerance, low, high, found.pairs, error_rate)


def _in_units_of_noise(difference: Gain, metrics: tuple[Metric, ...], noise: Mapping[str, float]) -> float:
    if unit := noise_of(difference, metrics, noise):
        return difference.amount / unit
    return math.copysign(_CERTAIN, difference.amount) if difference.amount else 0.0


def _next_to_measure(subject: NodeId, pairing: Pairing, secret: str) -> NodeId:
    """Within a pair, the one that is missing. A fair coin decides which comes first in a pair.

    So the order does not influence the signs of the gains, however the machine drifts.
    """
    mine, theirs = len(pairing.mine), len(pairing.theirs)
    if mine != theirs:
        return pairing.incumbent if mine > theirs else subject
    return subject if coin(secret, subject, pairing.incumbent, mine) else pairing.incumbent


def coin(secret: str, *toss: object) -> bool:
    """A fair coin, the same for the same toss of a run."""
    return random.Random(" ".join(map(str, (secret, *toss)))).random() < 0.5


def _amount_text(effect: Effect) -> str:
    return f"{effect.amount:.3g} " + (
        f"in {effect.metric}" if effect.metric else "units of noise over all metrics"
    )


def _details_text(effect: Effect) -> str:
    """The interval of the gain and the number of pairs."""
    low = "…" if effect.low is None else f"{effect.low:.3g}"
    high = "…" if effect.high is None else f"{effect.high:.3g}"
    level = f"{100 * (1 - 2 * effect.error_rate):.3g} %"
    return f"{level} interval {low} to {high}, {effect.pairs} pair{'s' * (effect.pairs != 1)}"
