"""The family of parts: which nodes try one part of the change that another node is.

It keeps nothing before the first of them: a search that takes no change apart does not pay for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.ids import NodeId
from loopty.kit.dataclass import dataclass, field, replace
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.nodes import NodeAdded
from loopty.record.proposals import ProposalRefused
from loopty.record.run_record import PoolPart

PART = "part"
"""The operator; its tag says what becomes of the part."""
_MOST_SOURCES = 16
"""More than the best nodes of a pool: a change that is among them again is rare."""
_MOST_NODES = 32


@dataclass(frozen=True, slots=True)
class PartTrials(PoolPart):
    """The parts that one pool has tried."""

    by_source: Mapping[NodeId, tuple[NodeId, ...]] = field(default_factory=dict)
    """By the node whose change was taken apart, the one that was tried last at the end."""
    refused_in_row: int = 0
    """Parts that were refused since the newest node: another one is tried instead."""


def is_part(operator: str) -> bool:
    return operator.partition(":")[0] == PART


def _add(state: FoldState, event: NodeAdded, _at: float) -> None:
    run = state.runs[event.node.run]
    known = PartTrials.of(run, event.pool)
    trials = replace(known, refused_in_row=0) if known.refused_in_row else known
    if is_part(event.operator) and event.inspirations:
        source = event.inspirations[0]
        nodes = (*known.by_source.get(source, ()), event.node)[-_MOST_NODES:]
        others = [(other, tried) for other, tried in known.by_source.items() if other != source]
        trials = replace(trials, by_source=dict([*others, (source, nodes)][-_MOST_SOURCES:]))
    if trials is not known:
        state.put_run(run.with_pool_part(event.pool, trials))


def _refuse(state: FoldState, event: ProposalRefused, _at: float) -> None:
    if is_part(event.operator):
        run = state.runs[event.run]
        known = PartTrials.of(run, event.pool)
        trials = replace(known, refused_in_row=known.refused_in_row + 1)
        state.put_run(run.with_pool_part(event.pool, trials))


FAMILY = Family((), {NodeAdded: _add, ProposalRefused: _refuse})
