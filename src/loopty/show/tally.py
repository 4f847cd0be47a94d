"""Figures of a whole run: verdicts, false keeps, uplift over the control, the verifier; rows and words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

from loopty.domain.evidence import chance_of_wins
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
from loopty.show.rated_nodes import RatedNode, RatedNodes, attempts_beside_control, rated_nodes
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


# Each control trial is compared with the attempt beside it. A coin of the loop says which of the two comes first,
# so a machine that changes its speed favours neither. The worth of a trial is its improvement on the baseline; one
# that failed or was rejected improved nothing. If the proposer were random, each pair that differs would be a fair
# coin, so the bet on the winners is valid whenever one looks. It is about this run, not the proposer in general.
#
# The amount, best against best of these pairs, has no interval: it is the difference of two maxima, each seen
# once.


SURPRISING = 0.05


class UpliftWords(StrEnum):
    """The conclusion in words."""

    BETTER = "better than random"
    WORSE = "worse than random"
    OPEN = "not significant"
    TOO_FEW = "too few pairs differ to say"


class Uplift(Record):
    """How much better the attempts beside the random control did than it, in this run."""

    metric: str
    amount: float
    """The gain of the best of these attempts over the best of these control trials; positive is better."""
    pairs: int
    won: int
    """Pairs in which the attempt was better."""
    lost: int
    chance: float
    """A random proposer ever comes as low as this with at most this probability."""
    words: UpliftWords


def uplift(history: History, run: int) -> Uplift | None:
    """Compute the uplift of a run under its present fingerprint; None without a pair."""
    record = history.runs[run]
    if not TrialCounts.of(record, Pool.CONTROL).started:
        return None
    fingerprint = Cohorts.of(record).fingerprint
    baseline, metrics = history[record.root].result(fingerprint), history.counting_metrics(run)
    is_compared = (
        baseline is not None and baseline.outcome.is_finished and TrialCounts.of(record, Pool.CONTROL).started
    )
    if baseline is None or not is_compared or not metrics:
        return None
    metric = score_metric(metrics)
    start = baseline.outcome.metrics[metric.name]
    return uplift_of_pairs(
        metric.name,
        [
            (_gain(mine, metric, start), _gain(theirs, metric, start))
            for mine, theirs in attempts_beside_control(history, run)
            if _is_ended(mine, fingerprint) and _is_ended(theirs, fingerprint)
        ],
    )


def uplift_of_pairs(metric: str, pairs: Sequence[tuple[float, float]]) -> Uplift | None:
    """Compute the uplift that pairs of gains over the baseline show, the attempt's first; None without a pair."""
    if not pairs:
        return None
    won, lost = sum(mine > theirs for mine, theirs in pairs), sum(mine < theirs for mine, theirs in pairs)
    amount = max(mine for mine, _ in pairs) - max(theirs for _, theirs in pairs)
    chance, words = chance_of_wins(won, lost), UpliftWords.OPEN
    if chance <= SURPRISING:
        words = UpliftWords.BETTER if won > lost else UpliftWords.WORSE
    elif chance_of_wins(won + lost, 0) > SURPRISING:
        words = UpliftWords.TOO_FEW
    return Uplift(metric, amount, pairs=len(pairs), won=won, lost=lost, chance=chance, words=words)


def _is_ended(node: RatedNode, fingerprint: str) -> bool:
    """Say whether its own trial took place under this fingerprint, and it is decided what that counts."""
    is_decided = node.verdict not in (None, Verdict.QUARANTINED, Verdict.HELD)
    return is_decided and node.ending is not None and node.fingerprint == fingerprint


def _gain(node: RatedNode, metric: Metric, baseline: float) -> float:
    if node.ending != Ending.FINISHED or node.own_score is None or node.verdict == Verdict.REJECTED:
        return 0.0
    return max(score_change(node.own_score, baseline, metric.direction).amount, 0.0)


_MOST_NODES = 2000


class WithdrawnVerdict(Record):
    """A verdict that was taken back."""

    node: NodeId
    before: Verdict | None
    now: Verdict
    why: str
    handle: int = 0


class Tally(Record):
    """Verdicts counted by pool."""

    verdicts: Mapping[Verdict, int]
    """Of attempts, without the baseline."""
    control_verdicts: Mapping[Verdict, int]
    withdrawn: tuple[WithdrawnVerdict, ...]
    """Verdicts that were taken back, those of descendants of a cheat included."""
    reopened: tuple[NodeId, ...]
    """Nodes that lost only against a withdrawn one and wait for `loopty node recheck`."""
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
    """`18 of 24 pairs won, 4 lost: better than random (p = 0.01); best against best +0.3 in score`."""
    found = f"{uplift.won:,} of {plural(uplift.pairs, 'pair')} won, {uplift.lost:,} lost: {uplift.words}"
    if uplift.words is UpliftWords.TOO_FEW:
        return found
    chance = "< 0.001" if uplift.chance < 0.001 else f"= {three_digits(uplift.chance)}"
    amount = rough_figure(uplift.amount) if uplift.amount else "no difference"
    return f"{found} (p {chance}); best against best {amount} in {uplift.metric}"


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
