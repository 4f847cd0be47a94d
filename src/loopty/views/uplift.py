"""The worth of the proposer: its best trial against the best of the random control, with an interval.

Both pools get the same budget: the first m trials of each, where m is the length of the shorter one. The worth of
a trial is its improvement on the baseline; a trial that failed, was rejected, or ran on another machine improved
nothing. The amount is the best of m attempts minus the best of m control trials, in the metric's unit and
direction.

The interval is a bootstrap: the amounts that result from drawing the same trials again, with replacement. The best
of m draws is the k-th best of n values with probability ((n-k+1)/n)^m - ((n-k)/n)^m, so the distribution is
computed exactly instead of sampled: it is the limit of ever more resamples, and the same each time.

The method assumes that the trials of a pool are exchangeable. Those of a random control are; a proposer that
learns does better late than early, so its result looks less certain than it is. Scores are used as measured: where
measurements vary, both pools contain the luck of single measurements. The result holds for this run only, not for
the proposer in general.
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

# A resampled maximum equals the observed one two times in three, so the usual 2.5 % promise too much: of two equal
# pools, the first was called better in up to one case in ten. With this tail it was 1 to 3 in 100, in simulations
# with 5 to 200 trials.
_TAIL = 0.0025
_NEGLIGIBLE = 1e-9

Gains = Sequence[float | None]
"""The improvement of each trial on the baseline, oldest first; None for a trial under another fingerprint."""


class UpliftWords(enum.StrEnum):
    """The conclusion in words."""

    BETTER = "better than random"
    NO_BETTER = "no better than random"
    WORSE = "worse than random"
    FEW_CONTROLS = "too few control trials to say"
    FEW_ATTEMPTS = "too few attempts to say"


@dataclass(frozen=True, slots=True)
class Uplift:
    """How much better the proposer does than the random control."""

    metric: str
    amount: float
    """The gain of the best attempt over the best control trial at the same budget; positive is better."""
    low: float | None
    high: float | None
    """None if there are too few trials."""
    level: float
    trials: int
    """Trials of each pool under the run's present fingerprint."""
    words: UpliftWords


def uplift(history: History, run: int) -> Uplift | None:
    """The uplift of a run; None without a baseline or a control trial. Reads every node of both pools."""
    record = history.runs[run]
    fingerprint = Cohorts.of(record).fingerprint
    baseline, metrics = history[record.root].result(fingerprint), history.counting_metrics(run)
    if baseline is None or not baseline.outcome.is_finished or not metrics:
        return None
    metric, start = metrics[0], baseline.outcome.metrics[metrics[0].name]
    attempts, control = (
        [_gain(node, fingerprint, metric, start) for node in _trials(history.nodes(run, pool))]
        for pool in SEARCH_POOLS
    )
    return uplift_from_gains(metric.name, attempts, control) if control else None


def uplift_from_gains(metric: str, attempts: Gains, control: Gains) -> Uplift:
    """The uplift of these attempts over these control trials."""
    trials = min(len(attempts), len(control))
    mine, theirs = ([gain or 0.0 for gain in gains[:trials]] for gains in (attempts, control))
    amount = max(mine, default=0.0) - max(theirs, default=0.0)
    comparable = min(_comparable_count(attempts[:trials]), _comparable_count(control[:trials]))
    if comparable < FEWEST_TRIALS:
        few = UpliftWords.FEW_CONTROLS if _comparable_count(control) < FEWEST_TRIALS else UpliftWords.FEW_ATTEMPTS
        return Uplift(metric, amount, None, None, LEVEL, comparable, few)
    low, high = _interval(mine, theirs)
    words = UpliftWords.BETTER if low > 0 else UpliftWords.WORSE if high < 0 else UpliftWords.NO_BETTER
    return Uplift(metric, amount, low, high, LEVEL, comparable, words)


def _trials(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes whose trial took place, oldest first; quarantined nodes had none."""
    return (node for node in nodes if node.id.parent and node.verdict not in (None, Verdict.QUARANTINED))


def _gain(node: Node, fingerprint: str, metric: Metric, baseline: float) -> float | None:
    # Only its own trial counts: on another machine only winners are measured again, and only those of one pool.
    if node.outcome is None or node.outcome.fingerprint != fingerprint:
        return None
    if not node.outcome.is_finished or node.verdict is Verdict.REJECTED:
        return 0.0
    return max(score_change(node.outcome.metrics[metric.name], baseline, metric.direction).amount, 0.0)


def _comparable_count(gains: Gains) -> int:
    return sum(gain is not None for gain in gains)


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
    """Each value that may be the best of n draws from n values, with its probability."""
    count = len(values)
    for rank, value in enumerate(sorted(values, reverse=True)):
        as_good, better = ((count - rank) / count) ** count, ((count - rank - 1) / count) ** count
        yield value, as_good - better
        if better < _NEGLIGIBLE:
            return
