"""What a search learned: the credit of operators and models, the best nodes, and the directions of a reviewer.

A node earns its gain over its parent beyond noise, as a share of the largest gain of late. A draft and a fix are
held against the best node of the time: their parent is the baseline, or has no result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from loopty.domain.ids import NodeId
from loopty.domain.objective import Metric, gain, score_metric
from loopty.domain.task_tables import MOST_QUESTIONS
from loopty.domain.trial import SEARCH_POOLS, Ending, Pool, Verdict
from loopty.kit.records import Record, field, replace
from loopty.record.calls import Spend
from loopty.record.fold import Event, Family, FoldState
from loopty.record.node_record import Node, recent_noise
from loopty.record.nodes import NodeAdded, ProposalRefused
from loopty.record.run_record import PoolPart, Run
from loopty.record.trials import Cohorts, RunRebaselined, TrialEnded, Trials, trial_name
from loopty.record.verdicts import Incumbents, NodeJudged, VerdictWithdrawn, score_gain

MOST_TOP = 8
_MOST_ARMS = 64
"""The arms of a hostile task file are bounded, as all that the fold keeps."""
_MERGE = "merge"
_MEMORY = 0.95
"""What is left of the largest gain after each verdict: gains grow rarer and smaller."""
_NOISE_BOUND = 2.0
"""Standard deviations of noise that a gain must exceed where the judge did not keep the node."""
_RANKED = (Verdict.KEPT, Verdict.DISCARDED, Verdict.INCONCLUSIVE)


class ArmCredit(Record):
    """What one arm, an operator with a model, has cost and brought."""

    asked: int = 0
    """Proposals that were answered, refused ones included."""
    refused: int = 0
    reward: float = 0.0
    """The sum of its nodes' gains, each a share of the largest gain at its time."""
    trials: int = 0
    """Trials that served the verdicts of its nodes, without cancelled ones."""
    calls: float = 0.0
    tokens: float = 0.0
    money_usd: float = 0.0
    call_seconds: float = 0.0
    trial_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Return how long its calls and trials took, one after the other."""
        return self.call_seconds + self.trial_seconds


class OperatorCredit(PoolPart):
    """The credit of one pool's arms, and its best nodes."""

    arms: Mapping[str, ArmCredit] = field(default_factory=dict)
    """By `arm_name`."""
    top: tuple[NodeId, ...] = ()
    """The best nodes, the best first; the baseline is one of them."""
    largest_gain: float = 0.0
    """The largest gain of late: it decays with each verdict."""

    def arm(self, operator: str, model: str) -> ArmCredit:
        return self.arms.get(arm_name(operator, model), ArmCredit())

    def with_arm(self, name: str, arm: ArmCredit) -> OperatorCredit:
        if name not in self.arms and len(self.arms) >= _MOST_ARMS:
            return self
        return replace(self, arms={**self.arms, name: arm})


_SMALL_SHARE = 0.05
"""Of a trial's time: so long a slot may be idle for a proposal that knows more."""
_INSTANT_SECONDS = 0.1
"""A call that is no longer, as one from a record, is always waited for."""


class Paces(Record):
    """How long one proposal takes: measured in this run, or what is believed before the first."""

    call_seconds: float = 30.0
    """Of the model, refused proposals included."""
    trial_seconds: float = 0.0
    """Of all trials that serve its verdict."""

    @classmethod
    def of(cls, run: Run, pool: Pool) -> Paces | None:
        """Return the means of the pool; None before the first trial of a proposal that a model made."""
        arms = [arm for arm in OperatorCredit.of(run, pool).arms.values() if arm.calls]
        tried = sum(arm.asked - arm.refused for arm in arms if arm.trials)
        if not tried:
            return None
        asked = sum(arm.asked for arm in arms)
        return cls(sum(arm.call_seconds for arm in arms) / asked, sum(arm.trial_seconds for arm in arms) / tried)

    @classmethod
    def before_the_first(cls, root: Node) -> Paces:
        """Return what is believed before the first proposal: its trials take as long as the baseline's."""
        return cls(trial_seconds=root.outcome.seconds if root.outcome else 0.0)

    def slots(self, width: int) -> int:
        """Return how many open questions keep so many trial slots busy."""
        return min(math.ceil(width * (1 + self.call_seconds / max(self.trial_seconds, 0.001))), MOST_QUESTIONS)

    def ahead(self, width: int) -> int:
        """Return how many slots become free during one call; 0 where it does not pay.

        A proposal that knows the last result is worth more than the seconds that a slot is idle: where a trial is
        shorter than a call, and where a call is a small share of a trial.
        """
        pays = self.trial_seconds >= self.call_seconds > max(_SMALL_SHARE * self.trial_seconds, _INSTANT_SECONDS)
        return math.ceil(width * self.call_seconds / self.trial_seconds) if pays else 0


class CallCost(Record):
    """What the calls behind one proposal cost, and which model answered."""

    model: str = ""
    calls: float = 0.0
    tokens: float = 0.0
    money_usd: float = 0.0
    seconds: float = 0.0


def arm_name(operator: str, model: str) -> str:
    """Name an operator without its tag, and a model: `mutate:number` is `mutate`. All `merge` are one arm."""
    return f"{operator.partition(':')[0]}|{'' if operator == _MERGE else model}"


def call_cost(run: Run, event: NodeAdded | ProposalRefused) -> CallCost:
    """Compute the proposal's share of its calls: all proposals of a reply have the same."""
    unread = Spend.of(run).unread
    replies = [unread[call] for call in event.calls if call in unread]
    if not replies:
        return CallCost()
    share = 1 / (event.index_in_reply + event.remaining_in_reply + 1)
    return CallCost(
        replies[-1].model,
        len(replies) * share,
        sum(reply.tokens for reply in replies) * share,
        sum(reply.money_usd for reply in replies) * share,
        sum(reply.seconds for reply in replies) * share,
    )


def _charge(credit: OperatorCredit, operator: str, cost: CallCost, refused: int) -> OperatorCredit:
    name = arm_name(operator, cost.model)
    arm = credit.arms.get(name, ArmCredit())
    arm = replace(
        arm,
        asked=arm.asked + 1,
        refused=arm.refused + refused,
        calls=arm.calls + cost.calls,
        tokens=arm.tokens + cost.tokens,
        money_usd=arm.money_usd + cost.money_usd,
        call_seconds=round(arm.call_seconds + cost.seconds, 6),
    )
    return credit.with_arm(name, arm)


def _add(state: FoldState, event: NodeAdded, _at: float) -> None:
    if not event.node.parent or event.pool not in SEARCH_POOLS:
        return
    run = state.runs[event.node.run]
    cost = call_cost(run, event)
    credit = _charge(OperatorCredit.of(run, event.pool), event.operator, cost, 0)
    state.put_run(run.with_pool_part(event.pool, credit))
    if cost.calls:
        node = state[event.node]
        state.put(replace(node, model=cost.model, tokens=cost.tokens, money_usd=cost.money_usd))


def _refuse(state: FoldState, event: ProposalRefused, _at: float) -> None:
    run = state.runs[event.run]
    credit = _charge(OperatorCredit.of(run, event.pool), event.operator, call_cost(run, event), 1)
    state.put_run(run.with_pool_part(event.pool, credit))


def _end_trial(state: FoldState, event: TrialEnded, _at: float) -> None:
    run = state.runs[event.node.run]
    trial = Trials.of(run).running.get(trial_name(event.node, event.number))
    if trial is None or event.outcome.ending is Ending.CANCELLED:
        return
    if not (trial.pool.rules.judging and trial.pool.rules.scored):
        return
    subject = state[trial.subject or event.node]
    if subject.id.parent:
        _change_arm(state, subject, trials=1, seconds=event.outcome.seconds)


def _credit_verdict(state: FoldState, event: NodeJudged, _at: float) -> None:
    node, run = state[event.node], state.runs[event.node.run]
    if node.id.parent is None:
        for pool in SEARCH_POOLS:
            run = run.with_pool_part(pool, replace(OperatorCredit.of(run, pool), top=(node.id,)))
        state.put_run(run)
        return
    if event.verdict is Verdict.QUARANTINED:
        _change_arm(state, node, asked=-1)
        return
    if event.verdict not in _RANKED:
        return
    _earn(state, node, event)
    run = state.runs[event.node.run]
    credit = OperatorCredit.of(run, node.pool)
    if node.id in credit.top:
        return
    comparison = _Comparison(Cohorts.of(run).fingerprint, state.counting_metrics(run.number))
    mine = comparison.metrics(node)
    if mine is None or (place := _place(state, comparison, mine, credit.top)) > MOST_TOP:
        return
    top = (*credit.top[: place - 1], node.id, *credit.top[place - 1 :])[:MOST_TOP]
    state.put_run(run.with_pool_part(node.pool, replace(credit, top=top)))


def _earn(state: FoldState, node: Node, event: NodeJudged) -> None:
    """Give the node's arm its gain, as a share of the largest of late."""
    run = state.runs[node.id.run]
    credit, amount = OperatorCredit.of(run, node.pool), _gained(state, run, node, event)
    largest = max(amount, _MEMORY * credit.largest_gain)
    state.put_run(run.with_pool_part(node.pool, replace(credit, largest_gain=largest)))
    reward = round(amount / largest, 9) if amount else 0.0
    if reward != node.reward:  # it was judged before, and lost only against a withdrawn node
        _change_arm(state, node, reward=reward - node.reward)
        state.put(replace(node, reward=reward))


def _gained(state: FoldState, run: Run, node: Node, event: NodeJudged) -> float:
    """Compute the node's gain over its parent beyond noise; 0 without one."""
    assert node.id.parent is not None
    fingerprint = Cohorts.of(run).fingerprint
    best = event.against or Incumbents.of(run, node.pool).best
    has_result = _Comparison(fingerprint, state.counting_metrics(run.number)).metrics(state[node.id.parent])
    base = best if best and (node.id.parent == run.root or has_result is None) else node.id.parent
    found = score_gain(state, node, base)
    if found is None or found.amount <= 0:
        return 0.0
    if event.verdict is Verdict.KEPT:
        return found.amount
    if base == event.against and event.effect is not None:
        return 0.0  # fresh pairs of both said that it is none
    result = state[base].result(fingerprint)
    noise = recent_noise(result, Cohorts.of(run).noise.get(fingerprint, {})) if result else {}
    bound = _NOISE_BOUND * noise.get(score_metric(state.metrics(node)).name, 0.0)
    return found.amount if found.amount > bound else 0.0


class _Comparison(Record):
    """What nodes of a run are compared by."""

    fingerprint: str
    counting: tuple[Metric, ...]

    def metrics(self, node: Node) -> Mapping[str, float] | None:
        """Return the node's metrics under the run's fingerprint; None if one that counts is missing."""
        result = node.result(self.fingerprint)
        if result is None or not result.outcome.is_finished:
            return None
        complete = self.counting and all(metric.name in result.outcome.metrics for metric in self.counting)
        return result.outcome.metrics if complete else None

    def is_better(self, mine: Mapping[str, float], other: Node) -> bool:
        """Say whether these metrics are better than the other node's, or the other cannot be compared."""
        theirs = self.metrics(other)
        return theirs is None or gain(mine, theirs, self.counting).amount > 0


def _place(state: FoldState, comparison: _Comparison, mine: Mapping[str, float], top: tuple[NodeId, ...]) -> int:
    """Find the place of these metrics among the best, from 1."""
    behind = (index for index, other in enumerate(top, start=1) if comparison.is_better(mine, state[other]))
    return next(behind, len(top) + 1)


def _change_arm(
    state: FoldState, node: Node, asked: int = 0, trials: int = 0, reward: float = 0.0, seconds: float = 0.0
) -> None:
    run = state.runs[node.id.run]
    credit, name = OperatorCredit.of(run, node.pool), arm_name(node.operator, node.model)
    arm = credit.arms.get(name)
    if arm is None:
        return
    arm = replace(
        arm,
        asked=max(arm.asked + asked, 0),
        trials=arm.trials + trials,
        reward=round(max(arm.reward + reward, 0.0), 9),
        trial_seconds=round(arm.trial_seconds + seconds, 6),
    )
    state.put_run(run.with_pool_part(node.pool, credit.with_arm(name, arm)))


def _withdraw(state: FoldState, event: VerdictWithdrawn, _at: float) -> None:
    node = state[event.node]
    if node.reward:
        _change_arm(state, node, reward=-node.reward)
        node = replace(node, reward=0.0)
        state.put(node)
    run = state.runs[event.node.run]
    credit = OperatorCredit.of(run, node.pool)
    top = tuple(other for other in credit.top if other != node.id)
    if top != credit.top:
        state.put_run(run.with_pool_part(node.pool, replace(credit, top=top)))


def _rebaseline(state: FoldState, event: RunRebaselined, _at: float) -> None:
    """Compare only nodes that were measured on this machine from now on."""
    run = state.runs[event.run]
    for pool in SEARCH_POOLS:
        credit = OperatorCredit.of(run, pool)
        top = tuple(node for node in credit.top if state[node].result(event.fingerprint) is not None)
        run = run.with_pool_part(pool, replace(credit, top=top))
    state.put_run(run)


OPERATOR_CREDIT = Family(
    (),
    {
        NodeAdded: _add,
        ProposalRefused: _refuse,
        TrialEnded: _end_trial,
        NodeJudged: _credit_verdict,
        VerdictWithdrawn: _withdraw,
        RunRebaselined: _rebaseline,
    },
)


class DirectionsGiven(Event):
    """What a reviewer would try next in a pool that makes no progress."""

    run: int
    pool: Pool
    text: str


class GivenDirections(PoolPart):
    """The newest directions of a reviewer."""

    text: str = ""
    best: NodeId | None = None
    """The best node when they were given: they are over once there is a better one."""

    @classmethod
    def in_force(cls, run: Run, pool: Pool) -> str:
        """Return the directions that were given for the present best node, or an empty text."""
        given = cls.of(run, pool)
        return given.text if given.best == Incumbents.of(run, pool).best else ""


def _direct(state: FoldState, event: DirectionsGiven, _at: float) -> None:
    run = state.runs[event.run]
    best = Incumbents.of(run, event.pool).best
    state.put_run(run.with_pool_part(event.pool, GivenDirections(event.text, best)))


DIRECTIONS = Family((DirectionsGiven,), {DirectionsGiven: _direct})
