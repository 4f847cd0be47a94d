"""A search that learns how to search: the credit of operators and models, and the values that move.

A node is worth `1 / place`, its place among the best nodes of its pool when it is judged. A node that is no better
than the baseline is worth nothing, however few nodes there are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from loopty.domain.ids import NodeId
from loopty.domain.objective import Metric, gain
from loopty.domain.proposal import SearchConfig, SearchMove
from loopty.domain.trial import SEARCH_POOLS, Ending, Pool, Verdict
from loopty.kit.records import Record, field, replace
from loopty.record.calls import Spend
from loopty.record.fold import Event, Family, FoldState
from loopty.record.node_record import Node
from loopty.record.nodes import NodeAdded, ProposalRefused
from loopty.record.run_record import PoolPart, Run
from loopty.record.trials import Cohorts, RunRebaselined, TrialEnded, Trials, trial_name
from loopty.record.verdicts import Incumbents, NodeJudged, VerdictWithdrawn, score_gain

MOST_TOP = 8
_MOST_ARMS = 64
"""The arms of a hostile task file are bounded, as all that the fold keeps."""
_MERGE = "merge"
_RANKED = (Verdict.KEPT, Verdict.DISCARDED, Verdict.INCONCLUSIVE)


class ArmCredit(Record):
    """What one arm, an operator with a model, has cost and brought."""

    asked: int = 0
    """Proposals that were answered, refused ones included."""
    refused: int = 0
    reward: float = 0.0
    trials: int = 0
    """Trials that served the verdicts of its nodes, without cancelled ones."""
    calls: float = 0.0
    tokens: float = 0.0
    money_usd: float = 0.0


class OperatorCredit(PoolPart):
    """The credit of one pool's arms, and its best nodes."""

    arms: Mapping[str, ArmCredit] = field(default_factory=dict)
    """By `arm_name`."""
    top: tuple[NodeId, ...] = ()
    """The best nodes, the best first; the baseline is one of them."""

    def arm(self, operator: str, model: str) -> ArmCredit:
        return self.arms.get(arm_name(operator, model), ArmCredit())

    def with_arm(self, name: str, arm: ArmCredit) -> OperatorCredit:
        if name not in self.arms and len(self.arms) >= _MOST_ARMS:
            return self
        return replace(self, arms={**self.arms, name: arm})


class CallCost(Record):
    """What the calls behind one proposal cost, and which model answered."""

    model: str = ""
    calls: float = 0.0
    tokens: float = 0.0
    money_usd: float = 0.0


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
        _change_arm(state, subject, trials=1)


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
    credit = OperatorCredit.of(run, node.pool)
    if event.verdict not in _RANKED or node.id in credit.top:
        return
    comparison = _Comparison(Cohorts.of(run).fingerprint, state.counting_metrics(run.number))
    mine = comparison.metrics(node)
    if mine is None or (place := _place(state, comparison, mine, credit.top)) > MOST_TOP:
        return
    top = (*credit.top[: place - 1], node.id, *credit.top[place - 1 :])[:MOST_TOP]
    state.put_run(run.with_pool_part(node.pool, replace(credit, top=top)))
    if not comparison.is_better(mine, state[run.root]):
        return
    earlier = 1 / node.place if node.place else 0.0  # it was judged before, and lost only against a withdrawn node
    if 1 / place > earlier:
        _change_arm(state, node, reward=1 / place - earlier)
        state.put(replace(node, place=place))


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


def _change_arm(state: FoldState, node: Node, asked: int = 0, trials: int = 0, reward: float = 0.0) -> None:
    run = state.runs[node.id.run]
    credit, name = OperatorCredit.of(run, node.pool), arm_name(node.operator, node.model)
    arm = credit.arms.get(name)
    if arm is None:
        return
    arm = replace(
        arm, asked=max(arm.asked + asked, 0), trials=arm.trials + trials, reward=round(arm.reward + reward, 9)
    )
    state.put_run(run.with_pool_part(node.pool, credit.with_arm(name, arm)))


def _withdraw(state: FoldState, event: VerdictWithdrawn, _at: float) -> None:
    node, run = state[event.node], state.runs[event.node.run]
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


# It keeps nothing before the first move: a search with fixed values does not pay for it.


_MEMORY = 0.95
"""What is left of the signal of improvement after one verdict."""
_MOST_OPERATORS = 64


class SearchMoved(Event):
    """How a pool is searched from here on, and why."""

    run: int
    pool: Pool
    move: SearchMove


class GainSum(Record):
    """Gains over the best node of the time, as shares of the largest gain so far; anything else counts as 0.

    Over the parent, a draft would gain most: its parent is the baseline.
    """

    count: int = 0
    total: float = 0.0


class SearchLearning(PoolPart):
    """What one pool has learned; `move` is None where it does not learn."""

    move: SearchMove | None = None
    signal: float = 1.0
    """How much the search improves: up to 1 after a gain, and less after each verdict without one."""
    dry: int = 0
    """Verdicts in a row without a new best node."""
    answered: int = 0
    """Proposals since the last move, refused ones included."""
    gained: float = 0.0
    """The gains of new best nodes since the last move, as shares of the largest gain so far."""
    tokens: float = 0.0
    """What the proposals since the last move used."""
    gains: Mapping[str, GainSum] = field(default_factory=dict)
    """By operator, and by mutation with its tag."""

    @property
    def config(self) -> SearchConfig:
        return self.move.config if self.move else SearchConfig()

    @property
    def number(self) -> int:
        return self.move.number if self.move else 0


def _move(state: FoldState, event: SearchMoved, _at: float) -> None:
    run, move = state.runs[event.run], event.move
    known = SearchLearning.of(run, event.pool)
    if move.number != known.number + 1:
        return  # two processes made the same move: the first one counts
    learning = replace(
        known,
        move=move,
        answered=0,
        gained=0.0,
        tokens=0.0,
    )
    state.put_run(run.with_pool_part(event.pool, learning))


def _answer(state: FoldState, event: NodeAdded | ProposalRefused, _at: float) -> None:
    number = event.node.run if isinstance(event, NodeAdded) else event.run
    run = state.runs[number]
    known = SearchLearning.of(run, event.pool)
    if known.move is None:
        return
    tokens = known.tokens + call_cost(run, event).tokens
    learning = replace(known, answered=known.answered + 1, tokens=tokens)
    state.put_run(run.with_pool_part(event.pool, learning))


def _learn_verdict(state: FoldState, event: NodeJudged, _at: float) -> None:
    node, run = state[event.node], state.runs[event.node.run]
    if node.pool not in SEARCH_POOLS or node.id.parent is None or event.verdict is Verdict.QUARANTINED:
        return
    known = SearchLearning.of(run, node.pool)
    if known.move is None:
        return
    best = Incumbents.of(run, node.pool)
    is_best = event.verdict is Verdict.KEPT
    amount = _amount(state, node, event.against or best.best)
    gain = amount / max(best.largest_gain, amount) if amount else 0.0
    kept_gain = gain if is_best else 0.0
    learning = replace(
        known,
        signal=round(max(_MEMORY * known.signal, math.sqrt(kept_gain)), 9),
        dry=0 if is_best else known.dry + 1,
        gained=round(known.gained + kept_gain, 9),
        gains=_with_gain(known.gains, node.operator, gain),
    )
    state.put_run(run.with_pool_part(node.pool, learning))


def _amount(state: FoldState, node: Node, other: NodeId | None) -> float:
    """Compute by how much the node is better than the other; 0 if it is not, or cannot be compared."""
    found = score_gain(state, node, other) if other else None
    return max(found.amount, 0.0) if found else 0.0


def _with_gain(gains: Mapping[str, GainSum], operator: str, gain: float) -> Mapping[str, GainSum]:
    names = {operator.partition(":")[0], operator}
    changed = dict(gains)
    for name in sorted(names):
        if name in changed or len(changed) < _MOST_OPERATORS:
            before = changed.get(name, GainSum())
            changed[name] = GainSum(before.count + 1, round(before.total + gain, 9))
    return changed


SEARCH_LEARNING = Family(
    (SearchMoved,),
    {SearchMoved: _move, NodeAdded: _answer, ProposalRefused: _answer, NodeJudged: _learn_verdict},
)
