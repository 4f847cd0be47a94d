"""Keep, discard, or measure again."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loopty.core.events import NodeJudged
from loopty.core.evidence import Evidence, evidence, noise_floor
from loopty.core.history import History
from loopty.core.ids import NodeId
from loopty.core.objective import Gain, Metric, Metrics, gain
from loopty.core.outcome import Effect, Ending, Outcome, Verdict
from loopty.core.records import Duel, Node, Run
from loopty.core.task import Noise

EQUAL_RESULTS = 3
"""So many equal results of the baseline, and the benchmark is taken for deterministic."""

_MOST_FAULTS = 3
_DEEP = 10


@dataclass(frozen=True, slots=True)
class Again:
    """Nothing can be said before this node is measured once more; the rival is who it is held against."""

    node: NodeId
    rival: NodeId | None = None


def ruling(history: History, subject: NodeId, noise: Noise, affordable: bool = True) -> NodeJudged | Again:
    """What follows from everything measured of a node so far.

    `affordable` says whether the budget has room for another measurement.
    """
    node = history[subject]
    outcome, run = node.outcome, history.runs[subject.run]
    assert outcome is not None
    if outcome.ending in (Ending.REFUSED, Ending.TAMPERED):
        return NodeJudged(subject, Verdict.REJECTED, outcome.reason)
    if not outcome.finished:
        return NodeJudged(subject, Verdict.DISCARDED, f"{outcome.ending}: {outcome.reason}")
    if node.fault:
        return NodeJudged(subject, Verdict.DISCARDED, f"measured again, it {node.fault}")
    metrics = history.yardstick(subject.run) or run.objective.resolved(outcome.metrics, outcome.directions)
    if subject == run.root:
        return _baseline(node, metrics[0], noise, affordable)
    champion = run.account(node.pool).champions.get(outcome.fingerprint)
    incumbent = history[champion].result(outcome.fingerprint) if champion else None
    if champion is None or incumbent is None:
        return NodeJudged(subject, Verdict.INCONCLUSIVE, _incomparable(run, outcome))
    found = gain(outcome.metrics, incumbent.outcome.metrics, metrics)
    plain = _compared(found, outcome.metrics, incumbent.outcome.metrics, champion)
    if found.amount <= 0 and node.duel is None:
        return NodeJudged(subject, Verdict.DISCARDED, plain, champion)
    floor = run.floors.get(outcome.fingerprint, {})
    if noise.repeat == "never" or not _sigma(found, metrics, _varied(floor, node.samples, incumbent.samples)):
        if noise.repeat == "auto" and len(node.samples) == 1 and affordable:
            return Again(subject)  # the benchmark does not vary, but the candidate may have drawn a lucky number
        verdict = Verdict.KEPT if found.amount > 0 else Verdict.DISCARDED
        return NodeJudged(subject, verdict, plain, champion)
    if node.duel is None or node.duel.rival != champion:
        if found.amount <= 0:  # another one became the incumbent meanwhile
            return NodeJudged(subject, Verdict.DISCARDED, plain, champion)
        if not affordable:
            return NodeJudged(subject, Verdict.INCONCLUSIVE, f"{plain}; no measurement is left", champion)
        return Again(subject if node.duel else champion, champion)
    return _duelled(subject, node.duel, metrics, floor, noise, affordable, run.seed)


def floor_known(samples: Sequence[Metrics], noise: Noise) -> bool:
    """Whether so many results tell how much they vary."""
    if noise.repeat == "never":
        return bool(samples)
    return len(samples) >= (EQUAL_RESULTS if _equal(samples) else noise.baseline)


def _equal(samples: Sequence[Metrics]) -> bool:
    return all(sample == samples[0] for sample in samples)


def _baseline(node: Node, metric: Metric, noise: Noise, affordable: bool) -> NodeJudged | Again:
    if affordable and not floor_known(node.samples, noise):
        return Again(node.id)
    values = [sample[metric.name] for sample in node.samples]
    measured = f"{values[0]:g}"
    if not _equal(node.samples):
        measured = f"{min(values):g} to {max(values):g} in {len(values)} measurements"
    elif len(values) > 1:
        measured += f", {len(values)} times the same"
    return NodeJudged(node.id, Verdict.KEPT, f"the first result: {metric.name} {measured}")


def _duelled(
    subject: NodeId,
    duel: Duel,
    metrics: tuple[Metric, ...],
    floor: Mapping[str, float],
    noise: Noise,
    affordable: bool,
    seed: int,
) -> NodeJudged | Again:
    if len(duel.mine) == len(duel.theirs):
        gains = [gain(mine, theirs, metrics) for mine, theirs in duel.pairs]
        metric, amounts, sigma = _scaled(gains, metrics, floor)
        found = evidence(amounts, sigma, noise.error_rate, noise.pairs)
        effect = Effect(
            metric, found.effect, _finite(found.low), _finite(found.high), found.pairs, noise.error_rate
        )
        verdict, word = _weighed(found)
        if verdict:
            return NodeJudged(subject, verdict, f"{word} {_stated(effect)}{_of(duel.rival)}", duel.rival, effect)
    if duel.faults >= _MOST_FAULTS:
        why = f"{duel.rival} gave no comparable result {duel.faults} times"
        return NodeJudged(subject, Verdict.INCONCLUSIVE, why, duel.rival)
    if not affordable:
        return NodeJudged(subject, Verdict.INCONCLUSIVE, "no measurement is left to decide it", duel.rival)
    return Again(_turn(subject, duel, seed), duel.rival)


def _weighed(found: Evidence) -> tuple[Verdict | None, str]:
    if found.better:
        return Verdict.KEPT, "better:"
    if found.futile:
        return Verdict.DISCARDED, "looked better once, is not:"
    if found.exhausted:
        return Verdict.INCONCLUSIVE, "perhaps better:"
    return None, ""


def _turn(subject: NodeId, duel: Duel, seed: int) -> NodeId:
    """Who is measured next: within a pair the other one. Who comes first in a pair is the fall of a fair coin.

    So the order has no part in the signs of the gains, however the machine drifts.
    """
    mine, theirs = len(duel.mine), len(duel.theirs)
    if mine != theirs:
        return duel.rival if mine > theirs else subject
    return subject if random.Random(f"{seed} {subject} {duel.rival} {mine}").random() < 0.5 else duel.rival


def _scaled(
    gains: list[Gain], metrics: tuple[Metric, ...], floor: Mapping[str, float]
) -> tuple[str, list[float], float]:
    """The metric that decides the pairs, the gains, and their noise; in units of noise where metrics differ."""
    amounts = [found.amount for found in gains]
    names = {found.metric.name if found.metric else "" for found in gains if found.amount}
    if len(names) == 1:
        first = next(found for found in gains if found.amount)
        return names.pop(), amounts, _sigma(first, metrics, floor)
    sigmas = [_sigma(found, metrics, floor) for found in gains]
    scaled = [
        amount / sigma if sigma else math.copysign(1.0, amount) * bool(amount) * _CERTAIN
        for amount, sigma in zip(amounts, sigmas, strict=True)
    ]
    return "", scaled, 1.0


_CERTAIN = 1e3
"""What a difference in a metric that never varied counts, in units of noise."""


def _varied(floor: Mapping[str, float], *samples: Sequence[Metrics]) -> dict[str, float]:
    """The noise seen anywhere: a candidate may bring some to a benchmark that had none.

    It tells whether to compare in pairs, never how to bet on them: that must not depend on what the pairs gave.
    """
    floors = [floor, *map(noise_floor, samples)]
    return {name: max(one.get(name, 0.0) for one in floors) for name in {**floors[1], **floor}}


def _sigma(found: Gain, metrics: tuple[Metric, ...], floor: Mapping[str, float]) -> float:
    """The noise of what decided."""
    if found.metric is not None:
        return floor.get(found.metric.name, 0.0)
    return math.hypot(*((metric.weight or 0.0) * floor.get(metric.name, 0.0) for metric in metrics))


def _compared(found: Gain, mine: Metrics, theirs: Metrics, champion: NodeId) -> str:
    word = "better" if found.amount > 0 else "worse" if found.amount < 0 else "no better"
    if found.metric is None:
        return f"{word}: the weighted sum by {found.amount:.6g}{_of(champion)}"
    name = found.metric.name
    return f"{word}: {name} {mine[name]:.6g} against {theirs[name]:.6g}{_of(champion)}"


def _of(node: NodeId) -> str:
    return f" of {node}" if node.depth < _DEEP else ""  # `against` names it; a reason is one short line


def _stated(effect: Effect) -> str:
    low = "…" if effect.low is None else f"{effect.low:.3g}"
    high = "…" if effect.high is None else f"{effect.high:.3g}"
    name = effect.metric or "all metrics, in units of noise,"
    return f"{name} by {effect.amount:.3g} ({low} to {high}) in {effect.pairs} pairs over that"


def _finite(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None


def _incomparable(run: Run, outcome: Outcome) -> str:
    here, there = run.machines.get(outcome.fingerprint, {}), run.machines.get(run.fingerprint, {})
    differing = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    named = f" ({', '.join(differing)} differ)" if differing else ""
    return f"measured under another fingerprint than the incumbent{named}: not comparable, see `loopty rebaseline`"
