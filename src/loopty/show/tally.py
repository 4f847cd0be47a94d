"""Figures that need every node of a run: verdicts, false keeps, uplift, the verifier; rows and words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

from loopty.domain.ids import NodeId
from loopty.domain.objective import Metric, score_metric
from loopty.domain.trial import Ending, Pool, Verdict
from loopty.kit.records import Record
from loopty.record.history import History
from loopty.record.node_record import Review
from loopty.record.nodes import NodeCount
from loopty.record.run_record import Run
from loopty.record.trials import Cohorts, TrialCounts
from loopty.record.verdicts import Incumbents, Reviews
from loopty.show.comparisons import score_change
from loopty.show.figures import node_name, plural, rough_figure, three_digits
from loopty.show.rated_nodes import RatedNode, RatedNodes, rated_nodes
from loopty.show.terminal import printable_line


class FalseKeeps(Record):
    """What the error rate of each candidate means for the whole run."""

    kept: int
    """Nodes that were kept after a comparison in pairs."""
    compared: int
    """Nodes that were compared in pairs."""
    expected: float
    """At most so many of the kept ones are expected to be false: the sum of the error rates of all bets."""


def false_keeps(history: History, run: int, rated: RatedNodes | None = None) -> FalseKeeps:
    """Estimate the false keeps among the attempts of a run; `rated` are its nodes, if they are known."""
    compared = [
        node.verdict
        for node in (rated or rated_nodes(history, run)).nodes
        if node.error_rate is not None and node.pool is Pool.ATTEMPT
    ]
    kept = sum(verdict == Verdict.KEPT for verdict in compared)
    expected = Incumbents.of(history.runs[run], Pool.ATTEMPT).expected_false
    return FalseKeeps(kept, len(compared), min(kept, expected))


# All attempts are compared with all control trials. The worth of a trial is its improvement on the baseline; one
# that failed, was rejected, or ran on another machine improved nothing. The amount is the best attempt minus the
# best control trial, in the metric's unit and direction.
#
# The amount has no interval: it is the difference of two maxima, each seen once, and no resampling of the same
# trials says how another run would turn out (an interval that tried held the truth in 31 to 98 % of the cases
# instead of 95 %). What can be said exactly is how surprising the order is. If the proposer were random, all
# trials would come from one distribution, and any n of the n + m could be the attempts: that the k best of all are
# attempts then happens with probability C(n + m - k, m) / C(n + m, m), whatever the sizes of the pools. Here k is
# the number of attempts above every control trial.
#
# Scores are used as measured: where measurements vary, both pools contain the luck of single measurements. The
# result holds for this run only, not for the proposer in general.


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
    """Compute the uplift of a run; None without a baseline, an attempt or a control trial.

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
    trials = [node for node in rated.nodes if _had_trial(node)]
    attempts, control = (
        [_gain(node, fingerprint, metric, start) for node in trials if node.pool is pool] for pool in _COMPARED
    )
    if not (attempts and control):
        return None
    return uplift_from_gains(metric.name, attempts, control)


def uplift_from_gains(metric: str, attempts: Gains, control: Gains) -> Uplift:
    """Compute the uplift of these attempts over these control trials."""
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


def _had_trial(node: RatedNode) -> bool:
    """Say whether a trial took place: quarantined nodes had none, and the baseline is none of the proposer's."""
    return not node.is_baseline and node.verdict not in (None, Verdict.QUARANTINED)


def _gain(node: RatedNode, fingerprint: str, metric: Metric, baseline: float) -> float | None:
    # Only its own trial counts: on another machine only winners are measured again, and only those of one pool.
    if node.ending is None or node.fingerprint != fingerprint:
        return None
    if node.ending != Ending.FINISHED or node.own_score is None or node.verdict == Verdict.REJECTED:
        return 0.0
    return max(score_change(node.own_score, baseline, metric.direction).amount, 0.0)


def _comparable_count(gains: Gains) -> int:
    return sum(gain is not None for gain in gains)


_MOST_NODES = 2000


class WithdrawnVerdict(Record):
    """A verdict that was taken back."""

    node: NodeId
    before: Verdict | None
    now: Verdict
    why: str
    handle: int = 0


class Tally(Record):
    """Verdicts counted by pool, and the uplift over the control."""

    verdicts: Mapping[Verdict, int]
    """Of attempts, without the baseline."""
    control_verdicts: Mapping[Verdict, int]
    withdrawn: tuple[WithdrawnVerdict, ...]
    """Verdicts that were taken back, those of descendants of a cheat included."""
    reopened: tuple[NodeId, ...]
    """Nodes that lost only against a withdrawn one and wait for `loopty node recheck`."""
    over_control: Uplift | None
    false_keeps: FalseKeeps


def is_quick(history: History) -> bool:
    """Say whether reading every node takes a negligible time."""
    return sum(NodeCount.of(run).nodes for run in history.runs.values()) <= _MOST_NODES


def tally(history: History, run: int, rated: RatedNodes | None = None) -> Tally:
    """Compute the tally of a run; `rated` are its nodes, if they are known."""
    rated = rated or rated_nodes(history, run)
    nodes = list(rated.records)
    return Tally(
        _verdicts(rated, Pool.ATTEMPT),
        _verdicts(rated, Pool.CONTROL),
        tuple(
            WithdrawnVerdict(node.id, node.withdrawn.verdict, node.verdict, node.withdrawn.why, node.handle)
            for node in nodes
            if node.withdrawn and node.verdict
        ),
        tuple(node.id for node in nodes if node.reopened_for and node.verdict is None),
        uplift(history, run, rated),
        false_keeps(history, run, rated),
    )


def _verdicts(rated: RatedNodes, pool: Pool) -> dict[Verdict, int]:
    judged = (node.verdict for node in rated.nodes if node.pool is pool and not node.is_baseline)
    counts = Counter(judged)
    return {verdict: counts[verdict] for verdict in Verdict if counts[verdict]}


class VerifierTotals(Record):
    """Counts of reviews."""

    passed: int
    """Winners by the metric that it accepted."""
    disagreements: int
    """Winners by the metric that it objected to."""
    rejected: int
    """How many of these were rejected because of its objection."""
    unreviewed: int
    """Winners that it could not be asked about, or for which it gave no usable answer."""

    @property
    def reviews(self) -> int:
        return self.passed + self.disagreements


def verifier_totals(run: Run) -> VerifierTotals | None:
    """Add up the verifier's work in a run; None if it did nothing."""
    endings = TrialCounts.of(run, Pool.REVIEW).endings
    totals = VerifierTotals(
        endings.get(Ending.FINISHED, 0),
        endings.get(Ending.REFUSED, 0),
        Reviews.of(run, Pool.ATTEMPT).rejected_by_verifier,
        endings.get(Ending.FAILED, 0),
    )
    return totals if totals.reviews or totals.unreviewed else None


_USUAL_VERDICTS = (Verdict.KEPT, Verdict.DISCARDED)


def uplift_text(uplift: Uplift) -> str:
    """`24 attempts against 8 random trials: +0.3 in score, significant (p = 0.01)`."""
    pools = f"{plural(uplift.attempts, 'attempt')} against {plural(uplift.control, 'random trial')}"
    difference = rough_figure(uplift.amount) if uplift.amount else "no difference"
    amount = f"{pools}: {difference} in {uplift.metric}, best against best"
    if uplift.chance is None:
        return f"{amount}; {uplift.words}"
    chance = "< 0.001" if uplift.chance < 0.001 else f"= {three_digits(uplift.chance)}"
    is_significant = uplift.words in (UpliftWords.BETTER, UpliftWords.WORSE)
    found = f"{uplift.words}" if is_significant else "not significant"
    return f"{amount}; {found} (p {chance})"


def false_keeps_text(found: FalseKeeps) -> str:
    """`3 of them kept in pairs; at most 1.2 expected to be false`; empty where nothing was kept in pairs."""
    if not found.kept:
        return ""
    expected = three_digits(found.expected)
    return f"{found.kept:,} of {found.compared:,} compared in pairs; at most {expected} expected to be false"


def verdicts_text(tally: Tally) -> str:
    """`4 kept, 9 discarded, 2 inconclusive; control 1 kept`; empty if all are kept or discarded."""
    if all(verdict in _USUAL_VERDICTS for verdict in (*tally.verdicts, *tally.control_verdicts)):
        return ""
    attempts, control = _counts_text(tally.verdicts) or "none yet", _counts_text(tally.control_verdicts)
    return f"{attempts}; control {control}" if control else attempts


def withdrawn_text(withdrawn: WithdrawnVerdict) -> str:
    """`1.2 was kept, is rejected: it reads the answers`."""
    was = f"was {withdrawn.before}, is {withdrawn.now}" if withdrawn.before else f"is {withdrawn.now}"
    return f"{node_name(withdrawn.node, withdrawn.handle)} {was}: {printable_line(withdrawn.why)}"


def verifier_text(totals: VerifierTotals) -> str:
    """`6 winners reviewed, disagreed with the metric on 2 (1 rejected)`."""
    parts = []
    if totals.reviews:
        parts.append(f"{plural(totals.reviews, 'winner')} reviewed")
    if totals.disagreements:
        rejected = f" ({totals.rejected:,} rejected)" if totals.rejected else ""
        parts.append(f"disagreed with the metric on {totals.disagreements:,}{rejected}")
    if totals.unreviewed:
        parts.append(f"{plural(totals.unreviewed, 'winner')} not reviewed")
    return ", ".join(parts)


def review_text(review: Review) -> str:
    """`passed: no rule is broken`, for the page of one node."""
    word = {True: "passed", False: "objected to", None: "not reviewed"}[review.passed]
    return f"{word}: {review.reason}" if review.reason else word


def _counts_text(verdicts: Mapping[Verdict, int]) -> str:
    return ", ".join(f"{count:,} {verdict}" for verdict, count in verdicts.items())
