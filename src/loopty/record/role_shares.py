"""The family of role shares: how the budget of a run is divided among the roles from here on, and why."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.kit.dataclass import Record, dataclass, field, replace
from loopty.record.calls import CallReserved
from loopty.record.event import Event
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.run_record import RunPart

SCREEN = "screen"
"""The operator of calls in which the verifier reads a proposal before its trial."""


@dataclass(frozen=True, slots=True)
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
    """Reviews and screened proposals."""
    objections: int = 0
    """Those of them in which the verifier objected."""


@dataclass(frozen=True, slots=True)
class RoleSharesChanged(Event):
    """The shares of the roles from here on, and the evidence for them."""

    run: int
    shares: Mapping[str, float]
    screened: float
    """The share of proposals that the verifier screens, where it screens any."""
    figures: RoleFigures
    reason: str


@dataclass(frozen=True, slots=True)
class RoleShares(RunPart):
    """The shares in force; empty before the first decision."""

    shares: Mapping[str, float] = field(default_factory=dict)
    screened: float = 1.0
    figures: RoleFigures = RoleFigures()
    """What the last decision was based on."""
    reason: str = ""
    screens: int = 0
    """Proposals that the verifier was asked about before their trials."""


def _count_screen(state: FoldState, event: CallReserved, _at: float) -> None:
    if event.operator == SCREEN:
        run = state.runs[event.run]
        part = RoleShares.of(run)
        state.put_run(run.with_part(replace(part, screens=part.screens + 1)))


def _change(state: FoldState, event: RoleSharesChanged, _at: float) -> None:
    run = state.runs[event.run]
    screens = RoleShares.of(run).screens
    part = RoleShares(event.shares, event.screened, event.figures, event.reason, screens)
    state.put_run(run.with_part(part))


FAMILY = Family((RoleSharesChanged,), {RoleSharesChanged: _change, CallReserved: _count_screen})
