"""Verdicts: what was decided about a node, which node each pool has to beat, and what confirms it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from loopty.domain.evidence import noise_floor
from loopty.domain.ids import NodeId
from loopty.domain.objective import score_metric
from loopty.domain.trial import SEARCH_POOLS, Effect, Ending, Pool, Verdict
from loopty.kit.records import Record, field, replace
from loopty.record import node_record
from loopty.record.directives import AuditAnchors, AuditConcluded, refuted_top
from loopty.record.fold import Event, Family, FoldState
from loopty.record.node_record import Node, Pairing, Review, Withdrawal
from loopty.record.run_record import PoolPart, Run, RunPart
from loopty.record.trials import CohortOpened, Cohorts, RunRebaselined, TrialEnded, Trials, trial_name


class NodeJudged(Event):
    """The verdict about a node, with its reason."""

    node: NodeId
    verdict: Verdict
    reason: str
    against: NodeId | None = None
    effect: Effect | None = None


class VerdictWithdrawn(Event):
    """A verdict is taken back: by a person, by a gate that was added later, or because an incumbent failed.

    The new verdict is never `kept`.
    """

    node: NodeId
    verdict: Verdict
    why: str
    cause: NodeId | None = None
    """The ancestor whose withdrawal this one follows from."""
    by_hand: bool = False
    """Whether a person decided it, not a gate or a measurement."""


class NodeRestored(Event):
    """A person's withdrawal is taken back: a node that was kept has to win again, others get theirs back."""

    node: NodeId
    why: str


class NodeReopened(Event):
    """A node waits for a verdict again: it was undecided, or the incumbent that it lost to has lost its place."""

    node: NodeId
    reason: str
    cause: NodeId | None = None
    """That incumbent; the node itself if it was undecided."""


class Incumbents(PoolPart):
    """The nodes that a pool's next winner has to beat."""

    best: NodeId | None = None
    """The incumbent under the run's present fingerprint."""
    by_fingerprint: Mapping[str, NodeId] = field(default_factory=dict)
    since_best: int = 0
    """Verdicts in a row without a new incumbent."""
    compared: int = 0
    """Verdicts that rest on pairs."""
    kept: int = 0
    """Those of them that kept a node."""
    steady_keeps: int = 0
    """Nodes kept in a row whose results never varied."""
    largest_gain: float = 0.0
    """The largest gain in the most important metric by which a node was kept."""
    expected_false: float = 0.0
    """At most so many of the kept are expected to be false: the sum of the error rates of all bets."""
    set_aside: Mapping[str, NodeId] = field(default_factory=dict)
    """The newest kept node, by fingerprint, that audits keep from the place, in case they let it return."""


def has_failed(state: FoldState, run: Run) -> bool:
    """Say whether the baseline gave no result, so that nothing in the run can be compared."""
    return state[run.root].verdict not in (None, Verdict.KEPT) and Incumbents.of(run, Pool.ATTEMPT).best is None


class ScoreGain(Record):
    """A node's score beside that of another, in the most important metric; a positive amount is better."""

    score: float
    older: float
    amount: float


def score_gain(state: FoldState, node: Node, against: NodeId) -> ScoreGain | None:
    """Compute the node's gain over the other in their records; None if one has no such score."""
    metrics, outcome = state.metrics(node), node.outcome
    result = state[against].result(outcome.fingerprint) if outcome else None
    if not metrics or outcome is None or result is None:
        return None
    metric = score_metric(metrics)
    score, older = outcome.metrics.get(metric.name), result.outcome.metrics.get(metric.name)
    if score is None or older is None:
        return None
    amount = min(metric.direction.sign * (score - older), sys.float_info.max)
    return ScoreGain(score, older, amount)


def _judge_node(state: FoldState, event: NodeJudged, _at: float) -> None:
    before = state[event.node].verdict
    withdrawn = state[event.node].withdrawn
    if before is Verdict.KEPT and event.verdict is not Verdict.KEPT:  # older ledgers; today this is a withdrawal
        withdrawn = Withdrawal(before, state[event.node].reason, event.reason)
    node = replace(
        state[event.node],
        withdrawn=withdrawn,
        verdict=event.verdict,
        reason=event.reason,
        against=event.against,
        judged=state.number,
        effect=event.effect,
    )
    state.put(node)
    at_first_look = event.effect is None and before is None and not node.fresh_rival
    if event.against and event.verdict is Verdict.DISCARDED and at_first_look:
        rival = state[event.against]
        state.put(replace(rival, first_looks_lost=rival.first_looks_lost + 1))
    run = state.runs[event.node.run]
    trials, cohorts = Trials.of(run), Cohorts.of(run)
    undecided = tuple(other for other in trials.undecided if other != node.id)
    is_baseline = node.id == run.root
    fingerprint = node.outcome.fingerprint if node.outcome else ""
    if is_baseline and event.verdict is Verdict.KEPT:
        noise = {**cohorts.noise, fingerprint: noise_floor(node.samples)}
        cohorts = replace(cohorts, fingerprint=fingerprint, noise=noise)
        run = run.with_part(cohorts)
    run = run.with_part(replace(trials, undecided=undecided))
    is_present = fingerprint == cohorts.fingerprint
    for pool in SEARCH_POOLS if is_baseline else (node.pool,):
        incumbents = Incumbents.of(run, pool)
        if event.effect:
            is_new = before is None  # a person's yes to a held node is no bet
            incumbents = replace(
                incumbents,
                compared=incumbents.compared + is_new,
                kept=incumbents.kept + (event.verdict is Verdict.KEPT),
                steady_keeps=0,
                expected_false=incumbents.expected_false + is_new * event.effect.error_rate,
            )
        if event.verdict is Verdict.KEPT and _carries_over(run, node.id):
            by_fingerprint = {**incumbents.by_fingerprint, fingerprint: node.id}
            gained = score_gain(state, node, event.against) if event.against else None
            largest = max(incumbents.largest_gain, gained.amount if gained else 0.0)
            if len(node.samples) > 1 and not event.effect and not is_baseline:
                incumbents = replace(incumbents, steady_keeps=incumbents.steady_keeps + 1)
            incumbents = replace(incumbents, by_fingerprint=by_fingerprint, largest_gain=largest)
            if is_present:
                incumbents = replace(incumbents, best=node.id, since_best=0)
        elif event.verdict is Verdict.KEPT:
            incumbents = replace(incumbents, set_aside={**incumbents.set_aside, fingerprint: node.id})
        elif before is Verdict.KEPT:
            incumbents = _elect(state, run, incumbents, node.id)
        elif event.verdict is not Verdict.QUARANTINED and is_present and not is_baseline:
            incumbents = replace(incumbents, since_best=incumbents.since_best + 1)
        run = run.with_pool_part(pool, incumbents)
    state.put_run(run)


def _elect(state: FoldState, run: Run, incumbents: Incumbents, lost: NodeId) -> Incumbents:
    """Elect incumbents after one lost its place: the one that it had beaten, of those that are still kept."""

    def successor(fingerprint: str) -> NodeId:
        return newest_holder(state, state[lost].against, fingerprint) or run.root

    by_fingerprint = {
        fingerprint: successor(fingerprint) if node == lost else node
        for fingerprint, node in incumbents.by_fingerprint.items()
    }
    if incumbents.best != lost:
        return replace(incumbents, by_fingerprint=by_fingerprint)
    best = successor(Cohorts.of(run).fingerprint)
    return replace(incumbents, best=best, by_fingerprint=by_fingerprint, since_best=0)


def lineage(state: FoldState, node: NodeId | None) -> Iterator[NodeId]:
    """Yield the node, the one that it was compared with, and so on down to the baseline."""
    while node:
        yield node
        node = state[node].against


def newest_holder(state: FoldState, top: NodeId | None, fingerprint: str) -> NodeId | None:
    """Return the newest node of the lineage that can be the one to beat: kept, measured there, and not refuted."""
    for node in lineage(state, top):
        found = state[node]
        is_kept = found.verdict is Verdict.KEPT and found.result(fingerprint) is not None
        if is_kept and _carries_over(state.runs[node.run], node):
            return node
    return None


def _carries_over(run: Run, node: NodeId) -> bool:
    """Say whether the node can be the one to beat, for all that audits found."""
    return not (AuditAnchors.of(run).steers and refuted_top(run, node))


def _conclude_audits(state: FoldState, event: AuditConcluded, _at: float) -> None:
    """Put the newest node that still holds in the place of one that an audit refuted, or that one back."""
    run = state.runs[event.run]
    incumbents = Incumbents.of(run, Pool.ATTEMPT)
    holders, aside = dict(incumbents.by_fingerprint), dict(incumbents.set_aside)
    for fingerprint, node in incumbents.by_fingerprint.items():
        top = aside.get(fingerprint, node)
        if node not in lineage(state, top):  # another was kept meanwhile
            top = node
        holders[fingerprint] = newest_holder(state, top, fingerprint) or run.root
        if holders[fingerprint] != top:
            aside[fingerprint] = top
    best = holders.get(Cohorts.of(run).fingerprint, incumbents.best)
    if best != incumbents.best:
        incumbents = replace(incumbents, best=best, since_best=0)
    incumbents = replace(incumbents, by_fingerprint=holders, set_aside=aside)
    state.put_run(run.with_pool_part(Pool.ATTEMPT, incumbents))


def _withdraw(state: FoldState, event: VerdictWithdrawn, _at: float) -> None:
    before = state[event.node]
    withdrawn = Withdrawal(before.verdict, before.reason, event.why, event.by_hand)
    node = replace(before, verdict=event.verdict, reason=event.why, withdrawn=withdrawn, judged=state.number)
    state.put(node)
    run = state.runs[event.node.run]
    trials = Trials.of(run)
    run = run.with_part(replace(trials, undecided=tuple(each for each in trials.undecided if each != node.id)))
    if before.verdict is Verdict.KEPT:
        incumbents = _elect(state, run, Incumbents.of(run, node.pool), node.id)
        run = run.with_pool_part(node.pool, incumbents)
    state.put_run(run)


def _reopen(state: FoldState, event: NodeReopened, _at: float) -> None:
    _open_again(state, state[event.node], event.reason, event.cause)


def _restore(state: FoldState, event: NodeRestored, _at: float) -> None:
    node = replace(state[event.node], withdrawn=None)
    old = state[event.node].withdrawn
    if old and old.verdict not in (None, Verdict.KEPT, Verdict.HELD):
        state.put(replace(node, verdict=old.verdict, reason=old.reason, judged=state.number))
    else:
        _open_again(state, node, f"restored: {event.why}", node.id)


def _open_again(state: FoldState, node: Node, reason: str, cause: NodeId | None) -> None:
    """Let the node wait for a verdict again."""
    # A pairing with nothing marks the node's measurements as stale: it begins with a new one.
    pairing = Pairing(node.id)
    state.put(
        replace(
            node,
            verdict=None,
            reason=reason,
            against=None,
            effect=None,
            pairing=pairing,
            fresh_rival=(),
            judged=0,
            reopened_for=(*node.reopened_for, cause) if cause else node.reopened_for,
        )
    )
    run = state.runs[node.id.run]
    trials = Trials.of(run)
    state.put_run(run.with_part(replace(trials, undecided=(*trials.undecided, node.id))))


def _rebaseline(state: FoldState, event: RunRebaselined | CohortOpened, _at: float) -> None:
    """Make the named node the incumbent; another pool goes on with its own there, else with the baseline."""
    run = state.runs[event.run]
    for pool in SEARCH_POOLS:
        incumbents = Incumbents.of(run, pool)
        own = incumbents.by_fingerprint.get(event.fingerprint, run.root)
        best = event.incumbent if pool is Pool.ATTEMPT else own
        incumbents = replace(incumbents, by_fingerprint={**incumbents.by_fingerprint, event.fingerprint: best})
        if isinstance(event, RunRebaselined):
            incumbents = replace(incumbents, best=best)
        run = run.with_pool_part(pool, incumbents)
    state.put_run(run)


VERDICTS = Family(
    (NodeJudged, VerdictWithdrawn, NodeReopened, NodeRestored),
    {
        NodeJudged: _judge_node,
        VerdictWithdrawn: _withdraw,
        NodeReopened: _reopen,
        NodeRestored: _restore,
        AuditConcluded: _conclude_audits,
        RunRebaselined: _rebaseline,
        CohortOpened: _rebaseline,
    },
)


# A review is a trial that measures nothing.


class Reviews(PoolPart):
    """What the reviews of a pool's winners led to."""

    rejected_by_verifier: int = 0
    """Winners by the metric that the verifier rejected."""


def _end_review(state: FoldState, event: TrialEnded, _at: float) -> None:
    """Note the verifier's answer. The node did not run: its measurements stay, a loss says nothing about it."""
    trial = Trials.of(state.runs[event.node.run]).running[trial_name(event.node, event.number)]
    if trial.pool is not Pool.REVIEW:
        return
    node, outcome = state[event.node], event.outcome
    if outcome.ending is not Ending.CANCELLED:
        passed = {Ending.FINISHED: True, Ending.REFUSED: False}.get(outcome.ending)
        node = replace(node, review=Review(passed, outcome.reason))
    state.put(replace(node, running=False))


def _judge_review(state: FoldState, event: NodeJudged, _at: float) -> None:
    node, run = state[event.node], state.runs[event.node.run]
    if event.verdict is Verdict.REJECTED and node.review and node.review.passed is False:
        rejected = Reviews.of(run, node.pool).rejected_by_verifier + 1
        state.put_run(run.with_pool_part(node.pool, Reviews(rejected)))


REVIEWS = Family((), {TrialEnded: _end_review, NodeJudged: _judge_review})


class Confirmation(RunPart):
    """The newest confirmation of a run. Its pairs serve no verdict, so nothing selected them."""

    node: NodeId | None = None
    """The node that was measured beside the baseline."""
    fingerprint: str = ""
    pairing: Pairing | None = None

    def pairing_of(self, node: NodeId, fingerprint: str) -> Pairing | None:
        """Return the pairs of this node and the baseline under this fingerprint."""
        return self.pairing if self.node == node and self.fingerprint == fingerprint else None


def _end_confirmation(state: FoldState, event: TrialEnded, _at: float) -> None:
    run, outcome = state.runs[event.node.run], event.outcome
    trial = Trials.of(run).running[trial_name(event.node, event.number)]
    if trial.pool is not Pool.CONFIRM or trial.subject is None:
        return
    known = Confirmation.of(run).pairing_of(trial.subject, outcome.fingerprint or Confirmation.of(run).fingerprint)
    pairing = known or Pairing(run.root)
    sample = node_record.counting_sample(outcome, state.counting_metrics(run.number))
    if sample and event.node == trial.subject:
        pairing = replace(pairing, mine=pairing.mine + sample)
    elif sample:
        pairing = replace(pairing, theirs=pairing.theirs + sample)
    elif outcome.ending is Ending.CANCELLED:
        pairing = pairing.whole_pairs()
    else:
        failures = pairing.failures + (event.node == trial.subject)
        pairing = replace(pairing.whole_pairs(), faults=pairing.faults + 1, failures=failures)
    fingerprint = outcome.fingerprint or Confirmation.of(run).fingerprint
    state.put_run(run.with_part(Confirmation(trial.subject, fingerprint, pairing)))


CONFIRMATIONS = Family((), {TrialEnded: _end_confirmation})
