"""The family of a search that learns how to search: its present values, and the sums that move them.

It keeps nothing before the first move: a search with fixed values does not pay for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from loopty.domain.ids import NodeId
from loopty.domain.outcome import Verdict
from loopty.domain.pool import SEARCH_POOLS, Pool
from loopty.domain.search_config import SearchConfig, SearchMove
from loopty.kit.records import Record, field, replace
from loopty.record.event import Event
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.node_record import Node
from loopty.record.nodes import NodeAdded
from loopty.record.operator_credit import call_cost
from loopty.record.proposals import ProposalRefused
from loopty.record.run_record import PoolPart
from loopty.record.verdicts import Incumbents, NodeJudged, score_gain

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


def _judge(state: FoldState, event: NodeJudged, _at: float) -> None:
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
    """By how much the node is better than the other one; 0 where it is not, or cannot be compared."""
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


FAMILY = Family(
    (SearchMoved,),
    {SearchMoved: _move, NodeAdded: _answer, ProposalRefused: _answer, NodeJudged: _judge},
)
