"""Runs and sessions: a run's criteria and budget, which process drives it, for how long, why it stopped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopty.domain.objective import Objective
from loopty.domain.task import Pools
from loopty.domain.trial import Pool
from loopty.kit.records import field, replace
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.fold import Event, Family, FoldState
from loopty.record.nodes import NodeAdded, ProposalRefused, Proposals
from loopty.record.run_record import Run, RunPart
from loopty.record.trials import TrialEnded, TrialStarted


class RunStarted(Event):
    """A new set of criteria; its number is the first number of every node id."""

    run: int
    criteria: str
    objective: Objective
    seed: int
    why: str
    benchmark: str = ""
    """Digest of the benchmark's files; part of the criteria."""
    data: str = ""
    """Digest of the benchmark's data outside the repository; part of the criteria."""
    criteria_parts: Mapping[str, str] = field(default_factory=dict)
    """A digest of each part of the criteria, to tell which of them changed."""
    secret: str = ""
    """Drawn when the run starts, for what no candidate may foresee; in no prompt, mount or export."""


def _start_run(state: FoldState, event: RunStarted, at: float) -> None:
    state.put_run(
        Run(
            number=event.run,
            criteria=event.criteria,
            objective=event.objective,
            seed=event.seed,
            why=event.why,
            started_at=at,
            benchmark=event.benchmark,
            data=event.data,
            criteria_parts=event.criteria_parts,
            secret=event.secret,
        )
    )


RUNS = Family((RunStarted,), {RunStarted: _start_run})


WHOLE_LIMITS = ("attempts", "control", "repeats", "tunes", "tokens")
"""Limits that are whole numbers."""
LIMITS = (*WHOLE_LIMITS, "wall_seconds", "money_usd")
"""The limits under [budget] that can be changed."""
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
    """Return the budget of the task file with the limits that were changed since."""
    limits = ChangedLimits.of(run).limits
    if not limits:
        return pools
    return replace(pools, **{name: _value(name, limit) for name, limit in limits.items() if name in LIMITS})


def _value(name: str, limit: float | None) -> Any:
    return int(limit) if limit is not None and name in WHOLE_LIMITS else limit


def _change(state: FoldState, event: BudgetChanged, _at: float) -> None:
    run = state.runs[event.run]
    state.put_run(run.with_part(ChangedLimits({**ChangedLimits.of(run).limits, **event.limits})))


BUDGETS = Family((BudgetChanged,), {BudgetChanged: _change})


class SessionStarted(Event):
    """One process drives the run from here on."""

    run: int
    owner: str


class SessionEnded(Event):
    """`lost`: the process died, and a later one closes its session."""

    run: int
    reason: str
    lost: bool = False


class SessionStalled(Event):
    """Nothing could be proposed or scored for a while, because a model was unavailable."""

    run: int
    reason: str
    seconds: float


class RunPaused(Event):
    """Nothing new starts in this run until it is resumed; what runs goes on to its end."""

    run: int
    why: str = ""


class RunResumed(Event):
    """The pause of this run is over."""

    run: int


class StopRequested(Event):
    """Somebody wants the present session to end. A later session does not obey it."""

    run: int
    why: str


class Session(RunPart):
    """Who drives the run, and the time spent on it."""

    driver: str = ""
    """The process that drives the run now; empty where none does."""
    since: float = 0.0
    """When the present session started."""
    seconds_before: float = 0.0
    """Time spent in earlier sessions."""
    seconds: float = 0.0
    """Time spent in all sessions, up to the last event."""
    ended: str = ""
    """Why the last session ended."""
    stalls: int = 0
    stalled_seconds: float = 0.0
    is_paused: bool = False
    """Whether nothing new may start. A pause outlasts the session; its time is not counted."""
    pause_reason: str = ""
    stop_request: str = ""
    """Why the present session should end; empty where nobody asked for it."""


def _start_session(state: FoldState, event: SessionStarted, at: float) -> None:
    run = state.runs[event.run]
    session = Session.of(run)
    for pool in (pool for pool in Pool if pool in run.pools):
        run = run.with_pool_part(pool, Proposals.of(run, pool).with_fresh_streak())
    session = replace(session, driver=event.owner, since=at, seconds_before=session.seconds, ended="")
    session = replace(session, stop_request="")
    state.put_run(run.with_part(session))


def _end(state: FoldState, event: SessionEnded, at: float) -> None:
    if not event.lost:  # a later process closes a lost session: nobody worked in between
        _advance_clock(state, event.run, at)
    run = state.runs[event.run]
    state.put_run(run.with_part(replace(Session.of(run), driver="", ended=event.reason, stop_request="")))


def _pause(state: FoldState, event: RunPaused, at: float) -> None:
    _advance_clock(state, event.run, at)
    run = state.runs[event.run]
    state.put_run(run.with_part(replace(Session.of(run), is_paused=True, pause_reason=event.why)))


def _resume(state: FoldState, event: RunResumed, at: float) -> None:
    run = state.runs[event.run]
    session = replace(Session.of(run), is_paused=False, pause_reason="")
    if session.driver:
        session = replace(session, since=at, seconds_before=session.seconds)
    state.put_run(run.with_part(session))


def _request_stop(state: FoldState, event: StopRequested, _at: float) -> None:
    run = state.runs[event.run]
    state.put_run(run.with_part(replace(Session.of(run), stop_request=event.why)))


def _stall(state: FoldState, event: SessionStalled, at: float) -> None:
    _advance_clock(state, event.run, at)
    run = state.runs[event.run]
    session = Session.of(run)
    seconds = session.stalled_seconds + event.seconds
    state.put_run(run.with_part(replace(session, stalls=session.stalls + 1, stalled_seconds=seconds)))


def _advance_clock(state: FoldState, run: int, at: float) -> None:
    """Move the session's clock on to this event."""
    session = Session.of(state.runs[run])
    seconds = session.seconds_before + at - session.since
    if session.driver and not session.is_paused and seconds > session.seconds:  # some events share a time
        state.put_run(state.runs[run].with_part(replace(session, seconds=seconds)))


def _tick(state: FoldState, event: Any, at: float) -> None:
    _advance_clock(state, event.run if hasattr(event, "run") else event.node.run, at)


def _tick_unless_lost(state: FoldState, event: TrialEnded, at: float) -> None:
    if not event.lost:
        _advance_clock(state, event.node.run, at)


SESSIONS = Family(
    (SessionStarted, SessionEnded, SessionStalled, RunPaused, RunResumed, StopRequested),
    {
        SessionStarted: _start_session,
        SessionEnded: _end,
        SessionStalled: _stall,
        RunPaused: _pause,
        RunResumed: _resume,
        StopRequested: _request_stop,
        NodeAdded: _tick,
        ProposalRefused: _tick,
        TrialStarted: _tick,
        TrialEnded: _tick_unless_lost,
        CallReserved: _tick,
        CallSettled: _tick,
    },
)
