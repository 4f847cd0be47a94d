"""What other processes ask of a run while a session drives it: to pause, to go on, to stop, to spend more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from loopty.domain.errors import Misuse
from loopty.domain.task import Pools
from loopty.engine import budget
from loopty.record.budgets import ChangedLimits, pools_in_force
from loopty.record.recorder import Recorder
from loopty.record.run_record import Run
from loopty.record.sessions import Session

_WATCH_SECONDS = 0.5


class RunControl:
    """Obeys requests, and stops the session when the time of the run is over; a pause does not count."""

    def __init__(
        self, recorder: Recorder, run: int, pools: Pools, may_start: asyncio.Event, stop: Callable[[str], None]
    ) -> None:
        """`may_start` is cleared during a pause; `stop` ends the session, for a reason."""
        self._recorder, self._run, self._task_pools = recorder, run, pools
        self._may_start, self._stop = may_start, stop
        self.changed = asyncio.Event()
        """Set when a pause or a limit of the run has changed."""
        self._known: tuple[bool, ChangedLimits] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def is_paused(self) -> bool:
        return not self._may_start.is_set()

    @property
    def pools(self) -> Pools:
        """The limits that are in force."""
        return pools_in_force(self._found, self._task_pools)

    @property
    def _found(self) -> Run:
        return self._recorder.history.runs[self._run]

    async def watch(self, owner: str, clock: Callable[[], float]) -> None:
        """Obey until this is cancelled. `owner` is the process that drives the session."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            with contextlib.suppress(Misuse):  # a ledger that cannot be read ends the next trial, with this reason
                await self._recorder.wait_for_ledger()
                self._recorder.refresh()
            self.obey(owner, clock)

    def obey(self, owner: str, clock: Callable[[], float]) -> None:
        """Obey what is recorded by now."""
        session, before = Session.of(self._found), self._known
        if session.stop_request and session.driver == owner:
            self._stop(session.stop_request)
        (self._may_start.clear if session.is_paused else self._may_start.set)()
        self._known = session.is_paused, ChangedLimits.of(self._found)
        if before != self._known:
            self._set_deadline(clock())
            self.changed.set()

    def end(self) -> None:
        """Forget the time limit: the session ends."""
        if self._deadline:
            self._deadline.cancel()

    def _set_deadline(self, now: float) -> None:
        self.end()
        limit = self.pools.wall_seconds
        if limit is not None and not self.is_paused:
            left = max(limit - budget.session_seconds(self._found, now), 0.0)
            loop, why = asyncio.get_running_loop(), f"the time limit of {limit:g} s is reached"
            self._deadline = loop.call_later(left, self._stop, why)
