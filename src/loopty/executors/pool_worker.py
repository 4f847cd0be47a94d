"""A worker as its driver sees it: one connection, at most one trial at a time, held by a lease."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Any

from loopty.domain.curve import Row
from loopty.domain.declared_types import cut_words, misfit
from loopty.domain.errors import LooptyError
from loopty.domain.machine import Machine
from loopty.domain.objective import Direction
from loopty.engine.protocols import OnMetrics
from loopty.executors.frames import LONGEST_HEAD, Frame, Link, LinkLost, send_beats, wait_for_silence
from loopty.executors.worker_order import LONGEST_FILES, PackedOrder, TrialReport, message, unpack_report
from loopty.kit import codec

CANCEL_SECONDS = 20.0
"""How long a worker may take to stop a trial."""
MOST_ROWS = 1_000_000
"""Rows of metrics that one trial may send."""


class TrialFault(LooptyError):  # noqa: N818 - named after what happened
    """The worker could not run the trial: its machine failed, not the candidate."""


@dataclass(slots=True)
class _Lease:
    """The trial that a member holds now."""

    name: str
    on_metrics: OnMetrics
    report: asyncio.Future[TrialReport]
    rows: list[Row] = field(default_factory=list)


class PoolWorker:
    """One worker of the pool, from its greeting to its end."""

    def __init__(self, name: str, host: str, machine: Machine, sandbox: str, link: Link) -> None:
        self.name = name
        self.host = host
        self.machine = machine
        self.fingerprint = machine.fingerprint  # computed once: the pool asks all workers for it, all the time
        self.sandbox = sandbox
        self.is_busy = False
        self.refused_results = 0
        """Results that came with a lease that no longer counts."""
        self._link = link
        self._lease: _Lease | None = None
        self._lost_reason = ""
        self._lost = asyncio.Event()

    def change_machine(self, machine: Machine) -> None:
        """From now on, its results count as those of this machine."""
        self.machine, self.fingerprint = machine, machine.fingerprint

    @property
    def lost_reason(self) -> str:
        """Why the worker is gone; empty while it is there."""
        return self._lost_reason

    def lose(self, reason: str) -> None:
        """Take the worker for gone: whatever it still sends counts for nothing."""
        if not self._lost.is_set():
            self._lost_reason = reason
            self._lost.set()
            self._link.close()

    async def serve(self, lease_seconds: float) -> None:
        """Take what the worker sends until it is gone."""
        watches = [
            asyncio.create_task(watch)
            for watch in (self._watch(lease_seconds), send_beats(self._link, lease_seconds))
        ]
        try:
            while not self._lost.is_set():
                await self._take(await self._link.receive(LONGEST_FILES, LONGEST_HEAD))
        except LinkLost as lost:
            self.lose(str(lost))
        finally:
            for watch in watches:
                watch.cancel()
            self.lose("its connection ended")

    async def _watch(self, lease_seconds: float) -> None:
        """Lose a worker that is silent for too long."""
        await wait_for_silence(self._link, lease_seconds)
        self.lose(f"the worker was silent for {lease_seconds:g} s")

    async def _take(self, frame: Frame) -> None:
        lease = self._lease
        if lease is None or frame.fields.get("lease") != lease.name or lease.report.done():
            self.refused_results += frame.kind == "end"
            return
        if frame.kind == "rows":
            await self._take_rows(lease, frame.fields)
        elif frame.kind == "end":
            lease.report.set_result(unpack_report(frame.fields, frame.block))
        elif frame.kind == "fault":
            lease.report.set_exception(TrialFault(cut_words(frame.text("reason"))))

    async def _take_rows(self, lease: _Lease, fields: Any) -> None:
        try:
            lease.rows += [_sound_row(codec.build(Row, row)) for row in fields["rows"]]
            directions = {str(name): Direction(value) for name, value in fields["directions"].items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise LinkLost("the worker sent metrics that cannot be read") from None
        if len(lease.rows) > MOST_ROWS:
            raise LinkLost(f"the worker sent more than {MOST_ROWS:,} rows of metrics")
        if reason := lease.on_metrics(lease.rows, directions):
            await self._link.send("stop", lease=lease.name, reason=reason)

    async def run(
        self, packed: PackedOrder, lease: str, on_metrics: OnMetrics, cancel: asyncio.Event
    ) -> TrialReport | None:
        """The report about a trial; None when it was cancelled, whatever the worker says then.

        Raises LinkLost when the worker is gone, TrialFault when it could not run the trial.
        """
        report: asyncio.Future[TrialReport] = asyncio.get_running_loop().create_future()
        self._lease = _Lease(lease, on_metrics, report)
        waits: list[asyncio.Future[Any]] = [asyncio.create_task(event.wait()) for event in (self._lost, cancel)]
        try:
            await self._link.send("trial", packed.block, lease=lease, order=message(packed.order))
            await asyncio.wait({report, *waits}, return_when=asyncio.FIRST_COMPLETED)
            if cancel.is_set():
                await self._stop(lease, report, waits[0])
                return None
            if not report.done():
                raise LinkLost(self._lost_reason)
            return report.result()
        finally:
            self._lease = None
            for wait in waits:
                wait.cancel()
            if report.done() and not report.cancelled():
                report.exception()  # it was looked at, or it no longer counts

    async def _stop(self, lease: str, report: asyncio.Future[TrialReport], lost: asyncio.Future[Any]) -> None:
        """Make the worker end its trial; one that does not say so in time is taken for gone."""
        with contextlib.suppress(LinkLost):
            await self._link.send("cancel", lease=lease)
        await asyncio.wait({report, lost}, timeout=CANCEL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not report.done():
            self.lose("the worker did not stop its trial in time")

    async def dismiss(self) -> None:
        """Tell the worker that there is no more work."""
        with contextlib.suppress(LinkLost, TimeoutError):
            await asyncio.wait_for(self._link.send("bye"), 5)


def _sound_row(row: Row) -> Row:
    """The row, if its values are numbers. Raises ValueError."""
    if fault := misfit(row):
        raise ValueError(fault)
    return row
