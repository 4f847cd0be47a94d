"""The family of budgets: limits that a person changed while the run goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopty.domain.task import Pools
from loopty.kit.records import field, replace
from loopty.record.event import Event
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.run_record import Run, RunPart

WHOLE_LIMITS = ("attempts", "control", "repeats", "tunes", "tokens")
"""Limits that are whole numbers."""
LIMITS = (*WHOLE_LIMITS, "wall_seconds", "money_usd")
"""The limits under [pools] that can be changed."""
ALWAYS_LIMITED = ("attempts", "control")
"""Those of them that are numbers in every run."""


class BudgetChanged(Event):
    """Limits of the run from here on, instead of those in the task file; None means no limit."""

    run: int
    limits: Mapping[str, float | None]


class ChangedLimits(RunPart):
    """All limits of a run that were changed."""

    limits: Mapping[str, float | None] = field(default_factory=dict)


def pools_in_force(run: Run, pools: Pools) -> Pools:
    """The budget of the task file with the limits that were changed since."""
    limits = ChangedLimits.of(run).limits
    if not limits:
        return pools
    return replace(pools, **{name: _value(name, limit) for name, limit in limits.items() if name in LIMITS})


def _value(name: str, limit: float | None) -> Any:
    return int(limit) if limit is not None and name in WHOLE_LIMITS else limit


def _change(state: FoldState, event: BudgetChanged, _at: float) -> None:
    run = state.runs[event.run]
    state.put_run(run.with_part(ChangedLimits({**ChangedLimits.of(run).limits, **event.limits})))


FAMILY = Family((BudgetChanged,), {BudgetChanged: _change})
