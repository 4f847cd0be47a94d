"""The family of frozen pools: the nodes of a search whose artifacts a later run combines."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.ids import NodeId
from loopty.kit.records import Record, field
from loopty.record.event import Event
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.run_record import RunPart


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


FAMILY = Family((PoolFrozen,), {PoolFrozen: _freeze})
