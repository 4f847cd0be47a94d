"""The worth of the proposer: its best trial against the best of the random control, and how surprising that is.

All attempts are compared with all control trials. The worth of a trial is its improvement on the baseline; one
that failed, was rejected, or ran on another machine improved nothing. The amount is the best attempt minus the
best control trial, in the metric's unit and direction.

The amount has no interval: it is the difference of two maxima, each seen once, and no resampling of the same
trials says how another run would turn out (an interval that tried held the truth in 31 to 98 % of the cases
instead of 95 %). What can be said exactly is how surprising the order is. If the proposer were random, all trials
would come from one distribution, and any n of the n + m could be the attempts: that the k best of all are attempts
then happens with probability C(n + m - k, m) / C(n + m, m), whatever the sizes of the pools. Here k is the number
of attempts above every control trial.

Scores are used as measured: where measurements vary, both pools contain the luck of single measurements. The
result holds for this run only, not for the proposer in general.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum

from loopty.domain.objective import Metric, score_metric
from loopty.domain.outcome import Ending, Verdict
from loopty.domain.pool import Pool
from loopty.kit.records import Record
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.views.rated_nodes import RatedKind, RatedNode, RatedNodes, rated_nodes
from loopty.views.score_change import score_change

_COMPARED = (Pool.ATTEMPT, Pool.CONTROL)
FEWEST_TRIALS = 5
SURPRISING = 0.05
"""An order of trials that a random proposer gives less often than this is significant."""

Gains = Sequence[float | None]
"""The improvement of each trial on the baseline, oldest first; None for a trial under another fingerprint."""


class UpliftWords(StrEnum):
    """The conclusion in words."""

    BETTER = "better than random"
    NO_BETTER = "no better than random"
    WORSE = "worse than random"
    FEW_CONTROLS = "too few control trials to say"
    FEW_ATTEMPTS = "too few attempts to say"


class Uplift(Record):
    """How much better the proposer did than the random control in this run."""

    metric: str
    amount: float
    """The gain of the best attempt over the best control trial; positive is better."""
    ahead: int
    """Attempts above every control trial; negative: control trials above every attempt."""
    chance: float | None
    """The probability that a random proposer puts as many ahead; None if there are too few trials."""
    attempts: int
    """Attempts under the run's present fingerprint."""
    control: int
    """Control trials under it."""
    words: UpliftWords


def uplift(history: History, run: int, rated: RatedNodes | None = None) -> Uplift | None:
    """The uplift of a run; None without a baseline, an attempt or a control trial.

    `rated` are its nodes, where they are known.
    """
    record = history.runs[run]
    fingerprint = Cohorts.of(record).fingerprint
    baseline, metrics = history[record.root].result(fingerprint), history.counting_metrics(run)
    if baseline is None or not baseline.outcome.is_finished or not metrics:
        return None
    metric = score_metric(metrics)
    start = baseline.outcome.metrics[metric.name]
    rated = rated or rated_nodes(history, run)
    of_trials = {kind for kind in rated.kinds if _had_trial(kind)}
    if not {kind.pool for kind in of_trials}.issuperset(_COMPARED):
        return None
    trials = [node for node in rated.nodes if node.kind in of_trials]
    attempts, control = (
        [_gain(node, fingerprint, metric, start) for node in trials if node.kind.pool is pool]
        for pool in _COMPARED
    )
    return uplift_from_gains(metric.name, attempts, control)


def uplift_from_gains(metric: str, attempts: Gains, control: Gains) -> Uplift:
    """The uplift of these attempts over these control trials."""
    mine, theirs = ([gain or 0.0 for gain in gains] for gains in (attempts, control))
    amount = max(mine, default=0.0) - max(theirs, default=0.0)
    ahead = _count_above(mine, theirs) or -_count_above(theirs, mine)
    counts = _comparable_count(attempts), _comparable_count(control)
    if min(counts) < FEWEST_TRIALS:
        few = UpliftWords.FEW_CONTROLS if counts[1] < FEWEST_TRIALS else UpliftWords.FEW_ATTEMPTS
        return Uplift(metric, amount, ahead, None, *counts, few)
    leading = len(mine) if ahead > 0 else len(theirs)
    total = len(mine) + len(theirs)
    chance = math.prod((leading - place) / (total - place) for place in range(abs(ahead)))
    words = UpliftWords.NO_BETTER
    if chance <= SURPRISING:
        words = UpliftWords.BETTER if ahead > 0 else UpliftWords.WORSE
    return Uplift(metric, amount, ahead, chance, *counts, words)


def _count_above(mine: Sequence[float], theirs: Sequence[float]) -> int:
    best = max(theirs, default=0.0)
    return sum(gain > best for gain in mine)


def _had_trial(kind: RatedKind) -> bool:
    """Whether a trial took place: quarantined nodes had none, and the baseline is none of the proposer's."""
    return not kind.is_baseline and kind.verdict not in (None, Verdict.QUARANTINED)


def _gain(node: RatedNode, fingerprint: str, metric: Metric, baseline: float) -> float | None:
    # Only its own trial counts: on another machine only winners are measured again, and only those of one pool.
    if node.kind.ending is None or node.kind.fingerprint != fingerprint:
        return None
    if node.kind.ending != Ending.FINISHED or node.own_score is None or node.kind.verdict == Verdict.REJECTED:
        return 0.0
    return max(score_change(node.own_score, baseline, metric.direction).amount, 0.0)


def _comparable_count(gains: Gains) -> int:
    return sum(gain is not None for gain in gains)
