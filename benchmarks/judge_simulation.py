"""The judge on simulated noise, where the truth is known: false keeps, power, when to give up."""

import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from judge_decision import (
    Decision,
    Measure,
    Order,
    Record,
    Rule,
    decide_by_pairs,
    decide_naively,
    evidence_by_pair,
)
from judge_noise import NOISES, Noise, gaussian

from loopty.domain.evidence import Evidence

Cells = Sequence[str]

EFFECTS = (-1.0, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0)

_STOPS: dict[str, Callable[[Evidence], bool]] = {
    "out of reach": lambda _: False,
    "wealth below 1/4": lambda evidence: evidence.wealth < 0.25,
    "no gain after 3 pairs": lambda evidence: evidence.pairs >= 3 and evidence.effect <= 0,
    "both (the judge before)": lambda one: one.wealth < 0.25 or (one.pairs >= 3 and one.effect <= 0),
    "odds below 1/2 (the judge)": lambda evidence: evidence.futile,
    "wealth below 1": lambda evidence: evidence.wealth < 1,
    "no gain": lambda evidence: evidence.effect <= 0,
}


@dataclass
class World:
    """A machine; its noise runs on from one measurement to the next."""

    noise: Iterator[float]

    def measure(self, level: float) -> Measure:
        return lambda: level + next(self.noise)


def false_keeps(decisions: int, seed: int) -> Iterator[Cells]:
    yield ("noise", "naive", "judge", "of those that looked better", "alternating order", "candidate always first")
    for name, noise in NOISES.items():
        by_order = {order: _decisions(noise, 0.0, Rule(order=order), decisions, seed) for order in Order}
        looked_better = [one for one in by_order[Order.COIN] if one.measurements > 1]
        others = (by_order[Order.ALTERNATING], by_order[Order.CANDIDATE_FIRST])
        by_naive_rule = _naive_decisions(noise, 0.0, decisions, seed)
        yield (
            name,
            *(_share(some, "kept") for some in (by_naive_rule, by_order[Order.COIN], looked_better, *others)),
        )


def power(decisions: int, seed: int, noise: Noise) -> Iterator[Cells]:
    yield ("true gain", "naive keeps", "kept", "inconclusive", "discarded", "measurements", "effect when kept")
    for effect in EFFECTS:
        by_judge = _decisions(noise, effect, Rule(), decisions, seed)
        by_naive_rule = _naive_decisions(noise, effect, decisions, seed)
        kept = [one.effect for one in by_judge if one.verdict == "kept"]
        yield (
            f"{effect:g}",
            _share(by_naive_rule, "kept"),
            *(_share(by_judge, verdict) for verdict in ("kept", "inconclusive", "discarded")),
            _mean(one.measurements for one in by_judge),
            f"{statistics.median(kept):.2f}" if len(kept) >= 10 else "–",
        )


def settings(decisions: int, seed: int) -> Iterator[Cells]:
    effects = (0.0, 1.0, 2.0, 4.0)
    yield (
        "error rate",
        "maximum pairs",
        "baseline",
        *(f"kept at {effect:g}" for effect in effects),
        "measurements at 0",
        "at 2",
    )
    rules = [Rule(most_pairs=pairs) for pairs in (8, 12, 16, 24)]
    rules += [Rule(baseline_measurements=measurements) for measurements in (3, 6)]
    rules += [Rule(error_rate=0.1), Rule(error_rate=0.01), Rule(error_rate=0.01, most_pairs=24)]
    for rule in rules:
        by_effect = {effect: _decisions(gaussian, effect, rule, decisions, seed) for effect in effects}
        spent = (_mean(one.measurements for one in by_effect[effect]) for effect in (0.0, 2.0))
        kept = (_share(by_effect[effect], "kept") for effect in effects)
        yield (f"{rule.error_rate:g}", str(rule.most_pairs), str(rule.baseline_measurements), *kept, *spent)


def stop_rules(decisions: int, seed: int) -> Iterator[Cells]:
    effects = (0.0, 1.0, 1.5, 2.0)
    yield ("stop when", *(f"kept at {effect:g}" for effect in effects), "measurements at 0", "at 1.5")
    traces = {effect: list(_traces(effect, decisions, seed)) for effect in effects}
    for name, stop in _STOPS.items():
        ends = {effect: [_end(trace, stop) for trace in traces[effect]] for effect in effects}
        kept = (f"{100 * statistics.fmean(end.better for end in ends[effect]):.1f} %" for effect in effects)
        yield (name, *kept, *(_mean(2 * end.pairs for end in ends[effect]) for effect in (0.0, 1.5)))


def _decisions(noise: Noise, effect: float, rule: Rule, count: int, seed: int) -> list[Decision]:
    rng = random.Random(seed)
    decisions = []
    for _ in range(count):
        world = World(noise(rng))
        record = Record.of([next(world.noise) for _ in range(rule.baseline_measurements)])
        decisions.append(decide_by_pairs(world.measure(effect), world.measure(0.0), record, rule, rng))
    return decisions


def _naive_decisions(noise: Noise, effect: float, count: int, seed: int) -> list[Decision]:
    rng = random.Random(seed)
    worlds = (World(noise(rng)) for _ in range(count))
    return [decide_naively(world.measure(effect), world.measure(0.0)()) for world in worlds]


def _traces(effect: float, count: int, seed: int) -> Iterator[list[Evidence]]:
    """For each candidate that looked better, the evidence after each pair to the very end."""
    rng, rule = random.Random(seed), Rule()
    for _ in range(count):
        world = World(gaussian(rng))
        record = Record.of([next(world.noise) for _ in range(rule.baseline_measurements)])
        if trace := list(evidence_by_pair(world.measure(effect), world.measure(0.0), record, rule, rng)):
            yield trace


def _end(trace: Sequence[Evidence], stop: Callable[[Evidence], bool]) -> Evidence:
    return next(evidence for evidence in trace if evidence.better or evidence.exhausted or stop(evidence))


def _share(decisions: Sequence[Decision], verdict: str) -> str:
    return f"{100 * Counter(one.verdict for one in decisions)[verdict] / len(decisions):.1f} %"


def _mean(values: Iterator[int]) -> str:
    return f"{statistics.fmean(values):.1f}"
