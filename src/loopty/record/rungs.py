"""The family of rungs: where a pool's ladder of proposers stands, and why."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.outcome import Verdict
from loopty.domain.pool import Pool
from loopty.kit.records import field, replace
from loopty.record.cohorts import Cohorts
from loopty.record.event import Event
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.nodes import NodeAdded
from loopty.record.proposals import ProposalRefused
from loopty.record.run_record import PoolPart
from loopty.record.trials import TrialCounts
from loopty.record.verdicts import NodeJudged


class RungChanged(Event):
    """The ladder of a pool went to another rung."""

    run: int
    pool: Pool
    rung: int
    name: str
    reason: str


class LadderState(PoolPart):
    """The rung of a pool's ladder, where its proposer is one."""

    rung: int = 0
    name: str = ""
    reason: str = ""
    """Why the ladder came to this rung; both are empty until the first change."""
    started: int = 0
    """How many trials had started when it came to this rung."""
    refused: int = 0
    """Proposals in a row that were refused on this rung."""
    falls: Mapping[str, int] = field(default_factory=dict)
    """By rung: how often in a row it was left for a lower one because of refusals. A new best clears this."""


def _change(state: FoldState, event: RungChanged, _at: float) -> None:
    run = state.runs[event.run]
    ladder = LadderState.of(run, event.pool)
    falls = dict(ladder.falls)
    if event.rung < ladder.rung and ladder.refused:
        falls[str(ladder.rung)] = falls.get(str(ladder.rung), 0) + 1
    started = TrialCounts.of(run, event.pool).started
    ladder = LadderState(event.rung, event.name, event.reason, started, falls=falls)
    state.put_run(run.with_pool_part(event.pool, ladder))


def _add(state: FoldState, event: NodeAdded, _at: float) -> None:
    run = state.runs[event.node.run]
    ladder = LadderState.of(run, event.pool)
    if event.node.parent and (ladder.refused or ladder.falls):
        falls = {rung: count for rung, count in ladder.falls.items() if rung != str(ladder.rung)}
        state.put_run(run.with_pool_part(event.pool, replace(ladder, refused=0, falls=falls)))


def _refuse(state: FoldState, event: ProposalRefused, _at: float) -> None:
    run = state.runs[event.run]
    ladder = LadderState.of(run, event.pool)
    state.put_run(run.with_pool_part(event.pool, replace(ladder, refused=ladder.refused + 1)))


def _judge(state: FoldState, event: NodeJudged, _at: float) -> None:
    """Forget how often rungs were left after refusals when there is a new best under the present fingerprint."""
    node, run = state[event.node], state.runs[event.node.run]
    fingerprint = node.outcome.fingerprint if node.outcome else ""
    ladder = LadderState.of(run, node.pool)
    if event.verdict is Verdict.KEPT and fingerprint == Cohorts.of(run).fingerprint and ladder.falls:
        state.put_run(run.with_pool_part(node.pool, replace(ladder, falls={})))


FAMILY = Family(
    (RungChanged,),
    {RungChanged: _change, NodeAdded: _add, ProposalRefused: _refuse, NodeJudged: _judge},
)
