"""Figures that need every node of a run: counts of verdicts, and the uplift."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from loopty.domain.ids import NodeId
from loopty.domain.outcome import Verdict
from loopty.domain.pool import SEARCH_POOLS, Pool
from loopty.kit.dataclass import dataclass
from loopty.record.history import History
from loopty.record.nodes import NodeCount
from loopty.views.false_keeps import FalseKeeps, false_keeps
from loopty.views.uplift import Uplift, uplift

_MOST_NODES = 2000


@dataclass(frozen=True, slots=True)
class WithdrawnVerdict:
    """A verdict that was taken back."""

    node: NodeId
    before: Verdict | None
    now: Verdict
    why: str
    handle: int = 0


@dataclass(frozen=True, slots=True)
class Tally:
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


def tally(history: History, run: int) -> Tally:
    """The tally of a run. Reads every node."""
    nodes = [node for pool in SEARCH_POOLS for node in history.nodes(run, pool)]
    return Tally(
        _verdicts(history, run, Pool.ATTEMPT),
        _verdicts(history, run, Pool.CONTROL),
        tuple(
            WithdrawnVerdict(node.id, node.withdrawn.verdict, node.verdict, node.withdrawn.why, node.handle)
            for node in nodes
            if node.withdrawn and node.verdict
        ),
        tuple(node.id for node in nodes if node.reopened_for and node.verdict is None),
        uplift(history, run),
        false_keeps(history, run),
    )


def _verdicts(history: History, run: int, pool: Pool) -> dict[Verdict, int]:
    counts = Counter(node.verdict for node in history.nodes(run, pool) if node.verdict and node.id.parent)
    return {verdict: counts[verdict] for verdict in Verdict if counts[verdict]}
