"""What people ask of a run while it goes on: to pause, to stop, to spend more, and what models are to know."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.task import Pools
from loopty.record.directives import Directive, DirectiveSet
from loopty.record.fold import Event
from loopty.record.history import History
from loopty.record.ledger import Owners
from loopty.record.node_record import parent_refusal
from loopty.record.sessions import (
    ALWAYS_LIMITED,
    LIMITS,
    WHOLE_LIMITS,
    BudgetChanged,
    ChangedLimits,
    RunPaused,
    RunResumed,
    Session,
    StopRequested,
    pools_in_force,
)
from loopty.session.queries import task_or_none
from loopty.workspaces.state_folder import StateFolder

_LARGEST = 1e15


def pause(history: History, run: int, why: str) -> Iterator[Event]:
    """Pause: nothing new starts from here on. A second pause changes nothing."""
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
    """Set these limits instead of those in force; None means no limit."""
    for name, limit in limits.items():
        if name not in LIMITS:
            raise Misuse(f"there is no limit {name!r}: the limits are {', '.join(LIMITS)}")
        if fault := _fault(name, limit):
            raise Misuse(f"{name}: {fault}")
    known = ChangedLimits.of(history.runs[run]).limits
    if any(name not in known or known[name] != limit for name, limit in limits.items()):
        yield BudgetChanged(run, dict(limits))


def has_driver(owners: Owners, history: History, run: int) -> bool:
    """Say whether a living process drives the run."""
    driver = Session.of(history.runs[run]).driver
    return bool(driver) and owners.is_alive(driver)


def limits_in_force(state: StateFolder, history: History, run: int) -> Mapping[str, float | None]:
    """Return every limit of the run, as changed; without a task file the changed ones alone."""
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


_MOST_NODES = 16


def set_directive(
    run: int,
    text: str | None,
    build_on: Sequence[NodeId] | None,
    not_below: Sequence[NodeId] | None,
    history: History,
) -> Iterator[Event]:
    """Set the directive's parts; None leaves a part as it is. Yields nothing if nothing changes."""
    old = Directive.of(history.runs[run])
    new = Directive(
        old.text if text is None else text,
        old.build_on if build_on is None else tuple(dict.fromkeys(build_on)),
        old.not_below if not_below is None else tuple(dict.fromkeys(not_below)),
    )
    if new != old:
        _refuse_nodes(history, run, new)
        yield DirectiveSet(run, new.text, new.build_on, new.not_below)


def _refuse_nodes(history: History, run: int, directive: Directive) -> None:
    named = (*directive.build_on, *directive.not_below)
    if len(named) > _MOST_NODES:
        raise Misuse(f"a directive names at most {_MOST_NODES} nodes: name those above them")
    for node in named:
        if node.run != run:
            raise Misuse(f"{history.name(node)} is not in run {run}, which the directive is for")
    if history.runs[run].root in directive.not_below:
        raise Misuse("every node is below the baseline: name another node, or stop the run with `loopty stop`")
    for node in directive.build_on:
        if reason := parent_refusal(history[node]):
            raise Misuse(f"{reason}; choose another node to build on")
        if top := next((top for top in directive.not_below if node.is_within(top)), None):
            raise Misuse(
                f"the directive cannot build on {history.name(node)} and on nothing at or below "
                f"{history.name(top)}: give one of the two"
            )
