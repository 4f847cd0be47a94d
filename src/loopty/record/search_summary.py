"""Where a search stands: what failed, its ladder of proposers, and the pools that it froze."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.ids import NodeId
from loopty.domain.objective import score_metric
from loopty.domain.trial import Pool, Verdict
from loopty.kit.records import Record, field, replace
from loopty.record.fold import Event, Family, FoldState
from loopty.record.node_record import Node
from loopty.record.nodes import NodeAdded, ProposalRefused
from loopty.record.run_record import PoolPart, Run, RunPart
from loopty.record.trials import Cohorts, TrialCounts
from loopty.record.verdicts import NodeJudged, score_gain

_MOST_SIDE_NODES = 16
_MOST_FAILED = 10
_MOST_HELD = 16
_MOST_SURFACES = 24
_MOST_GAINS = 5
_LONGEST_SURFACE = 80
_UNDECIDED = (Verdict.INCONCLUSIVE, Verdict.HELD)


class SurfaceCount(Record):
    """How often a part of the code was changed, and how often that was kept."""

    attempts: int = 0
    kept: int = 0
    misses_in_row: int = 0


class SearchSummary(RunPart):
    """What a newcomer to the search should know about its attempts."""

    side_nodes: tuple[NodeId, ...] = ()
    """Better than their parents, or undecided, and no part of the best when they were judged; newest last."""
    failed: tuple[NodeId, ...] = ()
    """The newest that were not kept, newest last."""
    surfaces: Mapping[str, SurfaceCount] = field(default_factory=dict)
    """By surface, the one that was changed last at the end."""
    held: tuple[NodeId, ...] = ()
    """The newest that were held, newest last; a person may have decided about them since."""
    gains: tuple[float, ...] = ()
    """By how much the newest kept nodes were better, newest last."""


def surface_of(node: Node) -> str:
    """Return the part of the code that a node is about: as its author said, else the first file it changes."""
    return (node.surface or next(iter(node.edits), ""))[:_LONGEST_SURFACE]


def _sum_up_verdict(state: FoldState, event: NodeJudged, _at: float) -> None:
    node, run = state[event.node], state.runs[event.node.run]
    if node.pool is not Pool.ATTEMPT or node.id.parent is None:
        return
    summary, is_kept = SearchSummary.of(run), event.verdict is Verdict.KEPT
    gains = summary.gains
    if is_kept and event.against and (gained := score_gain(state, node, event.against)):
        gains = (*gains, gained.amount)[-_MOST_GAINS:]
    state.put_run(
        run.with_part(
            replace(
                summary,
                side_nodes=_with_newest(summary.side_nodes, _side_node(state, run, node, event), _MOST_SIDE_NODES),
                failed=_with_newest(summary.failed, None if is_kept else node.id, _MOST_FAILED),
                surfaces=_with_surface(summary.surfaces, surface_of(node), is_kept),
                held=_with_newest(summary.held, node.id if event.verdict is Verdict.HELD else None, _MOST_HELD),
                gains=gains,
            )
        )
    )


def _side_node(state: FoldState, run: Run, node: Node, event: NodeJudged) -> NodeId | None:
    """Find the node that deserves a second look from now on, or None."""
    if event.verdict in _UNDECIDED:
        return node.id
    if event.verdict is Verdict.KEPT:
        beaten = event.against
        return beaten if beaten and beaten.parent and not node.id.is_within(beaten) else None
    if event.verdict is Verdict.DISCARDED and node.id.parent:
        gained, metrics = score_gain(state, node, node.id.parent), state.metrics(node)
        noise = Cohorts.of(run).noise.get(node.outcome.fingerprint if node.outcome else "", {})
        return node.id if gained and gained.amount > 2 * noise.get(score_metric(metrics).name, 0.0) else None
    return None


def _with_newest(nodes: tuple[NodeId, ...], node: NodeId | None, most: int) -> tuple[NodeId, ...]:
    return (*(other for other in nodes if other != node), node)[-most:] if node else nodes


def _with_surface(counts: Mapping[str, SurfaceCount], surface: str, is_kept: bool) -> Mapping[str, SurfaceCount]:
    if not surface:
        return counts
    before = counts.get(surface, SurfaceCount())
    count = SurfaceCount(before.attempts + 1, before.kept + is_kept, 0 if is_kept else before.misses_in_row + 1)
    others = [(name, other) for name, other in counts.items() if name != surface]
    return dict([*others, (surface, count)][-_MOST_SURFACES:])


SEARCH_SUMMARY = Family((), {NodeJudged: _sum_up_verdict})


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


def _note_verdict(state: FoldState, event: NodeJudged, _at: float) -> None:
    """Forget how often rungs were left after refusals when there is a new best under the present fingerprint."""
    node, run = state[event.node], state.runs[event.node.run]
    fingerprint = node.outcome.fingerprint if node.outcome else ""
    ladder = LadderState.of(run, node.pool)
    if event.verdict is Verdict.KEPT and fingerprint == Cohorts.of(run).fingerprint and ladder.falls:
        state.put_run(run.with_pool_part(node.pool, replace(ladder, falls={})))


RUNGS = Family(
    (RungChanged,),
    {RungChanged: _change, NodeAdded: _add, ProposalRefused: _refuse, NodeJudged: _note_verdict},
)


class PoolMember(Record):
    """A node of the pool, with its score when the pool was frozen."""

    node: NodeId
    score: float
    artifacts: Mapping[str, str] = field(default_factory=dict)
    """The digest of each by its name."""
    reason: str = ""
    """Why it is in the pool."""
    handle: int = 0


class PoolFrozen(Event):
    """A run combines these nodes of another one. Nothing changes them from now on."""

    run: int
    base: int
    members: tuple[PoolMember, ...]


class FrozenPool(RunPart):
    """What a run combines; empty for a run that is a search of its own."""

    base: int = 0
    members: tuple[PoolMember, ...] = ()


def _freeze(state: FoldState, event: PoolFrozen, _at: float) -> None:
    state.put_run(state.runs[event.run].with_part(FrozenPool(event.base, event.members)))


FROZEN_POOLS = Family((PoolFrozen,), {PoolFrozen: _freeze})
