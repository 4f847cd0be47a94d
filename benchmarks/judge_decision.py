"""One decision on one candidate, by the judge and by the naive rule."""

import enum
import itertools
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from loopty.domain.evidence import Evidence, evidence, noise_floor
from loopty.record.node_record import RECENT_SAMPLES

Measure = Callable[[], float]
"""Measures once, now; higher is better."""


class Order(enum.Enum):
    """Which side of a pair is measured first; in the first pair the candidate, because it already was measured."""

    COIN = enum.auto()
    ALTERNATING = enum.auto()
    CANDIDATE_FIRST = enum.auto()

    def candidate_goes_first(self, pairs: int, rng: random.Random) -> bool:
        if self is Order.COIN:
            return rng.random() < 0.5
        return self is Order.CANDIDATE_FIRST or pairs % 2 == 0


@dataclass(frozen=True, slots=True)
class Rule:
    error_rate: float = 0.05
    most_pairs: int = 16
    baseline_measurements: int = 12
    """How many times the incumbent is measured beforehand."""
    order: Order = Order.COIN
    first_look: float = 0.5


@dataclass(frozen=True, slots=True)
class Record:
    """The incumbent's recorded score, and the noise of one measurement."""

    score: float
    sigma: float
    repeats: Sequence[float] = ()
    """The differences between neighbouring measurements."""

    @classmethod
    def of(cls, values: Sequence[float]) -> "Record":
        return cls(
            statistics.median(values[-RECENT_SAMPLES:]),
            noise_floor([{"value": value} for value in values])["value"],
            [abs(one - other) for one, other in itertools.pairwise(values)],
        )


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: str
    effect: float
    candidate_values: Sequence[float]
    """The measurements of the candidate."""
    incumbent_values: Sequence[float] = ()

    @property
    def measurements(self) -> int:
        return len(self.candidate_values) + len(self.incumbent_values)


def decide_by_pairs(
    candidate: Measure, incumbent: Measure, record: Record, rule: Rule, rng: random.Random
) -> Decision:
    """Measure a candidate; when it looks better than the record, pairs decide."""
    ours: list[float] = []
    theirs: list[float] = []
    measure_ours, measure_theirs = _append_to(candidate, ours), _append_to(incumbent, theirs)
    for pairs in evidence_by_pair(measure_ours, measure_theirs, record, rule, rng):
        if pairs.better:
            return Decision("kept", pairs.stated, ours, theirs)
        if pairs.futile:
            return Decision("discarded", pairs.effect, ours, theirs)
        if pairs.exhausted:
            return Decision("inconclusive", pairs.effect, ours, theirs)
    return Decision("discarded", ours[0] - record.score, ours)


def evidence_by_pair(
    candidate: Measure, incumbent: Measure, record: Record, rule: Rule, rng: random.Random
) -> Iterator[Evidence]:
    """The evidence after each pair, up to the limit; empty when the first measurement does not look better."""
    if candidate() <= record.score + rule.first_look * record.sigma:
        return
    gains: list[float] = []
    while len(gains) < rule.most_pairs:
        if rule.order.candidate_goes_first(len(gains), rng):
            ours = candidate()
            gains.append(ours - incumbent())
        else:
            theirs = incumbent()
            gains.append(candidate() - theirs)
        yield evidence(gains, record.sigma, rule.error_rate, rule.most_pairs, repeats=record.repeats)


def decide_naively(candidate: Measure, record: float) -> Decision:
    """Keep a candidate that measures better than its parent did."""
    score = candidate()
    return Decision("kept" if score > record else "discarded", score - record, [score])


def _append_to(measure: Measure, values: list[float]) -> Measure:
    """A measurement that also appends its value to the list."""

    def measure_and_append() -> float:
        values.append(measure())
        return values[-1]

    return measure_and_append
