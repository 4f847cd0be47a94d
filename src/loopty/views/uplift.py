"""What the proposer is worth: its best against the best of the random control, with an interval.

Both lanes are given the same budget, the first m trials of each, where m is what the shorter one has had. A trial
is worth what it improved on the baseline; one that failed, was rejected, or was measured on another machine,
improved nothing.
The amount is the best of m attempts less the best of m control trials, in the metric's unit and direction.

The interval is the bootstrap's: what the amount would have been, had chance dealt the same trials again, each as
often as it likes. The best of m draws is the k-th best of n values with the chance ((n-k+1)/n)^m - ((n-k)/n)^m, so
this is counted out, not drawn: the limit of ever more resamples, and the same each time.

It assumes that the trials of a lane are exchangeable. Those of a random control are; a proposer that learns does
better late than early, and comes out as less certain than it is. Scores are taken as they are: where measurements
vary, both lanes have the luck of single ones in them. And it speaks of this run, not of the proposer elsewhere.
"""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from loopty.domain.objective import Metric
from loopty.domain.outcome import Verdict
from loopty.domain.pool import SEARCH_POOLS
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.views.score_change import score_change

FEWEST_TRIALS = 5
LEVEL = 0.95

# A resampled maximum is the observed one two times in three, so the usual 2.5 % promise too much: of lanes that
# are alike the first was called better in up to one case in ten. With this tail it was in 1 to 3 of 100, by
# simulation from 5 to 200 trials.
_TAIL = 0.0025
_NEGLIGIBLE = 1e-9

Gains = Sequence[float | None]
"""By how much each trial improved on the baseline, oldest first; None for one under another fingerprint."""


class UpliftWords(enum.StrEnum):
    BETTER = "better than random"
    NO_BETTER = "no better than random"
    WORSE = "worse than random"
    FEW_CONTROLS = "too few control trials to say"
    FEW_ATTEMPTS = "too few attempts to say"


@dataclass(frozen=True, slots=True)
class Uplift:
    metric: str
    amount: float
    """Of the best attempt over the best of the control at the same budget; positive is better."""
    low: float | None
    high: float | None
    """None where there are too few trials."""
    level: float
    trials: int
    """Of each lane, under the run's present fingerprint."""
    words: UpliftWords


def uplift(history: History, run: int) -> Uplift | None:
    """None while there is no baseline or no trial of the control. Looks at every node of both lanes."""
    found = history.runs[run]
    baseline, metrics = history[found.root].result(Cohorts.of(found).fingerprint), history.counting_metrics(run)
    if baseline is None or not baseline.outcome.is_finished or not metrics:
        return None
    metric, start = metrics[0], baseline.outcome.metrics[metrics[0].name]
    attempts, control = (
        [_gain(node, Cohorts.of(found).fingerprint, metric, start) for node in _trials(history.nodes(run, pool))]
        for pool in SEARCH_POOLS
    )
    return uplift_from_gains(metric.name, attempts, control) if control else None


def uplift_from_gains(metric: str, attempts: Gains, control: Gains) -> Uplift:
    trials = min(len(attempts), len(control))
    mine, theirs = ([gain or 0.0 for gain in lane[:trials]] for lane in (attempts, control))
    amount = max(mine, default=0.0) - max(theirs, default=0.0)
    here = min(_comparable_count(attempts[:trials]), _comparable_count(control[:trials]))
    if here < FEWEST_TRIALS:
        few = UpliftWords.FEW_CONTROLS if _comparable_count(control) < FEWEST_TRIALS else UpliftWords.FEW_ATTEMPTS
        return Uplift(metric, amount, None, None, LEVEL, here, few)
    low, high = _interval(mine, theirs)
    words = UpliftWords.BETTER if low > 0 else UpliftWords.WORSE if high < 0 else UpliftWords.NO_BETTER
    return Uplift(metric, amount, low, high, LEVEL, here, words)


def _trials(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes that have had their trial, oldest first; those that the machinery lost have had none."""
    return (node for node in nodes if node.id.parent and node.verdict not in (None, Verdict.QUARANTINED))


def _gain(node: Node, fingerprint: str, metric: Metric, baseline: float) -> float | None:
    # Of its own trial alone: only winners are measured again on another machine, and only those of one lane.
    if node.outcome is None or node.outcome.fingerprint != fingerprint:
        return None
    if not node.outcome.is_finished or node.verdict is Verdict.REJECTED:
        return 0.0
    return max(score_change(node.outcome.metrics[metric.name], baseline, metric.direction).amount, 0.0)


def _comparable_count(lane: Gains) -> int:
    return sum(gain is not None for gain in lane)


def _interval(mine: list[float], theirs: list[float]) -> tuple[float, float]:
    chances = sorted(
        (one - other, chance * odds)
        for one, chance in _chances_of_best(mine)
        for other, odds in _chances_of_best(theirs)
    )
    sums = list(accumulate(chance for _, chance in chances))
    low, high = bisect_right(sums, _TAIL), bisect_left(sums, 1 - _TAIL)
    return chances[low][0], chances[high][0]


def _chances_of_best(values: list[float]) -> Iterator[tuple[float, float]]:
    """What may be the best of as many draws, each with its chance."""
    count = len(values)
    for rank, value in enumerate(sorted(values, reverse=True)):
        as_good, better = ((count - rank) / count) ** count, ((count - rank - 1) / count) ** count
        yield value, as_good - better
        if better < _NEGLIGIBLE:
            return
