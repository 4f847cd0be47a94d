"""The family of role shares: how the budget of a run is divided among the roles from here on, and why."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.kit.records import Record, field
from loopty.record.event import Event
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.run_record import RunPart


class RoleFigures(Record):
    """What the roles of a run have done so far: sums, so that two of them show what happened between."""

    nodes: int = 0
    """Attempts that were proposed."""
    failed: int = 0
    """Attempts that did not finish."""
    pairs: int = 0
    """Verdicts that rest on pairs of measurements."""
    pairs_kept: int = 0
    """Those of them that kept a node."""
    looks: int = 0
    """Reviews."""
    objections: int = 0
    """Those of them in which the verifier objected."""


class RoleSharesChanged(Event):
    """The shares of the roles from here on, and the evidence for them."""

    run: int
    shares: Mapping[str, float]
    figures: RoleFigures
    reason: str


class RoleShares(RunPart):
    """The shares in force; empty before the first decision."""

    shares: Mapping[str, float] = field(default_factory=dict)
    figures: RoleFigures = RoleFigures()
    """What the last decision was based on."""
    reason: str = ""


def _change(state: FoldState, event: RoleSharesChanged, _at: float) -> None:
    part = RoleShares(event.shares, event.figures, event.reason)
    state.put_run(state.runs[event.run].with_part(part))


FAMILY = Family((RoleSharesChanged,), {RoleSharesChanged: _change})
