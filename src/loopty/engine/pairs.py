"""A node against the incumbent, in interleaved pairs of measurements, until the evidence suffices."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

from loopty.domain.evidence import Evidence, evidence
from loopty.domain.ids import NodeId
from loopty.domain.objective import Gain, Metric, gain
from loopty.domain.outcome import Effect, Verdict
from loopty.domain.task import Noise
from loopty.record.events import NodeJudged
from loopty.record.records import Pairing

_MOST_FAULTS = 3
_CERTAIN = 1e3
"""What a difference in a metric that never varied counts, in units of noise."""


@dataclass(frozen=True, slots=True)
class MeasureAgain:
    """Nothing can be said before this node is measured once more; the rival is who it is held against."""

    node: NodeId
    rival: NodeId | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """By what two results are compared."""

    metrics: tuple[Metric, ...]
    noise: Noise
    affordable: bool
    """Whether the budget has room for another measurement."""
    seed: int


def judge_pairs(subject: NodeId, duel: Pairing, rules: Rules) -> NodeJudged | MeasureAgain:
    """The verdict that the pairs so far allow, or who is measured next."""
    if duel.mine and len(duel.mine) == len(duel.theirs):
        effect, found = _weigh(duel, rules)
        words = f"{_effect_text(effect)}{duel.rival.of_id}"
        if found.better:
            return NodeJudged(subject, Verdict.KEPT, f"better: {words}", duel.rival, effect)
        if found.futile:
            return NodeJudged(
                subject, Verdict.DISCARDED, f"looked better once, is not: {words}", duel.rival, effect
            )
        if found.exhausted:
            return NodeJudged(subject, Verdict.INCONCLUSIVE, f"perhaps better: {words}", duel.rival, effect)
    if duel.faults >= _MOST_FAULTS:
        why = f"{duel.faults} measurements beside {duel.rival} gave nothing to compare"
        return NodeJudged(subject, Verdict.INCONCLUSIVE, why, duel.rival)
    if not rules.affordable:
        return NodeJudged(subject, Verdict.INCONCLUSIVE, "no measurement is left to decide it", duel.rival)
    return MeasureAgain(_next_to_measure(subject, duel, rules.seed), duel.rival)


def sigma(found: Gain, metrics: tuple[Metric, ...], floor: Mapping[str, float]) -> float:
    """The noise of what decided."""
    if found.metric is not None:
        return floor.get(found.metric.name, 0.0)
    return math.hypot(*((metric.weight or 0.0) * floor.get(metric.name, 0.0) for metric in metrics))


def _weigh(duel: Pairing, rules: Rules) -> tuple[Effect, Evidence]:
    gains = [gain(mine, theirs, rules.metrics) for mine, theirs in duel.pairs]
    deciding = {found.metric for found in gains if found.amount} or {rules.metrics[0]}
    if len(deciding) == 1:
        (metric,) = deciding
        name = metric.name if metric else "the weighted sum"
        noise = sigma(Gain(0.0, metric), rules.metrics, duel.noise)
        found = _evidence([found.amount for found in gains], noise, rules)
    else:
        name = ""
        found = _evidence([_in_units_of_noise(one, rules.metrics, duel.noise) for one in gains], 1.0, rules)
    low, high = (bound if math.isfinite(bound) else None for bound in (found.low, found.high))
    return Effect(name, found.effect, low, high, found.pairs, rules.noise.error_rate), found


def _evidence(amounts: list[float], noise: float, rules: Rules) -> Evidence:
    return evidence(amounts, noise, rules.noise.error_rate, rules.noise.pairs)


def _in_units_of_noise(found: Gain, metrics: tuple[Metric, ...], floor: Mapping[str, float]) -> float:
    if noise := sigma(found, metrics, floor):
        return found.amount / noise
    return math.copysign(_CERTAIN, found.amount) if found.amount else 0.0


def _next_to_measure(subject: NodeId, duel: Pairing, seed: int) -> NodeId:
    """Who is measured next: within a pair the other one. Who comes first in a pair is the fall of a fair coin.

    So the order has no part in the signs of the gains, however the machine drifts.
    """
    mine, theirs = len(duel.mine), len(duel.theirs)
    if mine != theirs:
        return duel.rival if mine > theirs else subject
    return subject if random.Random(f"{seed} {subject} {duel.rival} {mine}").random() < 0.5 else duel.rival


def _effect_text(effect: Effect) -> str:
    low = "…" if effect.low is None else f"{effect.low:.3g}"
    high = "…" if effect.high is None else f"{effect.high:.3g}"
    name = effect.metric or "all metrics, in units of noise,"
    pairs = f"{effect.pairs} pair{'s' * (effect.pairs != 1)}"
    return f"{name} by {effect.amount:.3g} ({low} to {high}) in {pairs} over that"
