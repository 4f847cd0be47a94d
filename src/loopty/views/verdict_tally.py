"""Figures that need every node of a run: counts of verdicts, and the uplift."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from loopty.domain.ids import NodeId
from loopty.domain.outcome import Verdict
from loopty.domain.pool import Pool
from loopty.kit.records import Record
from loopty.record.history import History
from loopty.record.nodes import NodeCount
from loopty.views.false_keeps import FalseKeeps, false_keeps
from loopty.views.rated_nodes import RatedNodes, rated_nodes
from loopty.views.uplift import Uplift, uplift

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
    """Nodes that lost only against a withdrawn one and wait for `loopty remeasure`."""
    over_control: Uplift | None
    false_keeps: FalseKeeps


def is_quick(history: History) -> bool:
    """Whether reading every node takes a negligible time."""
    return sum(NodeCount.of(run).nodes for run in history.runs.values()) <= _MOST_NODES


def tally(history: History, run: int, rated: RatedNodes | None = None) -> Tally:
    """The tally of a run; `rated` are its nodes, where they are known."""
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
    counts: Counter[str] = Counter()
    for kind, count in rated.kinds.items():
        if kind.pool is pool and kind.verdict and not kind.is_baseline:
            counts[kind.verdict] += count
    return {verdict: counts[verdict] for verdict in Verdict if counts[verdict]}
