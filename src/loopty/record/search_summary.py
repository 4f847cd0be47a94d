"""The family of the search's summary: what failed, what may be combined, and where was looked; all bounded."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.ids import NodeId
from loopty.domain.objective import score_metric
from loopty.domain.outcome import Verdict
from loopty.domain.pool import Pool
from loopty.kit.records import Record, field, replace
from loopty.record.cohorts import Cohorts
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.node_record import Node
from loopty.record.run_record import Run, RunPart
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
    """The part of the code that a node is about: as its author said, else the first file that it changes."""
    return (node.surface or next(iter(node.edits), ""))[:_LONGEST_SURFACE]


def _judge(state: FoldState, event: NodeJudged, _at: float) -> None:
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
    """The node that is worth a second look from now on, or None."""
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


FAMILY = Family((), {NodeJudged: _judge})
