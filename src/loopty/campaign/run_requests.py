"""What people ask of a run while it goes on: to pause, to go on, to stop, to spend more or less."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from loopty.campaign.queries import task_or_none
from loopty.domain.errors import Misuse
from loopty.domain.task import Pools
from loopty.record.budgets import (
    ALWAYS_LIMITED,
    LIMITS,
    WHOLE_LIMITS,
    BudgetChanged,
    ChangedLimits,
    pools_in_force,
)
from loopty.record.event import Event
from loopty.record.history import History
from loopty.record.owners import Owners
from loopty.record.sessions import RunPaused, RunResumed, Session, StopRequested
from loopty.workspaces.state_folder import StateFolder

_LARGEST = 1e15


def pause(history: History, run: int, why: str) -> Iterator[Event]:
    """Nothing new starts from here on. A second pause changes nothing."""
    if not Session.of(history.runs[run]).is_paused:
        yield RunPaused(run, why)


def resume(history: History, run: int) -> Iterator[Event]:
    if not Session.of(history.runs[run]).is_paused:
        raise Misuse(f"run {run} is not paused: `loopty status` says what it does")
    yield RunResumed(run)


def stop(history: History, run: int, why: str) -> Iterator[Event]:
    if not Session.of(history.runs[run]).stop_request:
        yield StopRequested(run, f"stopped on request: {why}" if why else "stopped on request")


def change_budget(history: History, run: int, limits: Mapping[str, float | None]) -> Iterator[Event]:
    """These limits instead of those in force; None means no limit."""
    for name, limit in limits.items():
        if name not in LIMITS:
            raise Misuse(f"there is no limit {name!r}: the limits are {', '.join(LIMITS)}")
        if fault := _fault(name, limit):
            raise Misuse(f"{name}: {fault}")
    known = ChangedLimits.of(history.runs[run]).limits
    if any(name not in known or known[name] != limit for name, limit in limits.items()):
        yield BudgetChanged(run, dict(limits))


def has_driver(owners: Owners, history: History, run: int) -> bool:
    """Whether a living process drives the run."""
    driver = Session.of(history.runs[run]).driver
    return bool(driver) and owners.is_alive(driver)


def limits_in_force(state: StateFolder, history: History, run: int) -> Mapping[str, float | None]:
    """Every limit of the run, as changed; without a task file the changed ones alone."""
    record, task = history.runs[run], task_or_none(state.top)
    if task is None:
        return ChangedLimits.of(record).limits
    pools: Pools = pools_in_force(record, task.pools)
    return {name: getattr(pools, name) for name in LIMITS}


def _fault(name: str, limit: float | None) -> str:
    if limit is None:
        return "it needs a number" if name in ALWAYS_LIMITED else ""
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not math.isfinite(limit):
        return "it needs a number, or null for no limit"
    if limit < 0 or limit > _LARGEST or (name == "wall_seconds" and limit == 0):
        least = "more than 0" if name == "wall_seconds" else "0 or more"
        return f"{limit:g} is out of range: give {least}, up to {_LARGEST:g}"
    return f"{limit:g} is not a whole number" if name in WHOLE_LIMITS and limit != int(limit) else ""
