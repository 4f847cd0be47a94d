"""Follows the metrics of one running trial, and ends it when it is doomed or cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping

from loopty.engine.protocols import OnMetrics, Stage
from loopty.evaluators import harvest
from loopty.evaluators.contract import METRICS, STOP
from loopty.evaluators.metrics_csv import Stream
from loopty.kit.untrusted_files import Unreadable

_LOOK_SECONDS = 0.2


class Watch:
    """What is known of a trial while it runs. `kill` is set when it has to end."""

    def __init__(self, stage: Stage, seen: OnMetrics, grace_seconds: float, cancel: asyncio.Event) -> None:
        self._stage = stage
        self._seen = seen
        self._grace_seconds = grace_seconds
        self._cancel = cancel
        (stage.folder / METRICS).unlink(missing_ok=True)  # an earlier trial that was cancelled may have left it
        self.stream = Stream(stage.outbox / METRICS, copy=stage.folder / METRICS)
        self._traces = harvest.Traces(stage.outbox / "traces", stage.folder / "traces")
        self.kill = asyncio.Event()
        self.doomed = ""
        self.broken = ""

    @property
    def partial(self) -> Mapping[str, float]:
        """The last row of metrics, if any."""
        return self.stream.rows[-1].metrics if self.stream.rows else {}

    async def follow(self) -> None:
        """Look until the trial is over; the caller cancels this. Whatever ends it, the trial is not left alone."""
        try:
            await self._follow()
        finally:
            self.kill.set()

    async def _follow(self) -> None:
        condemned_at = 0.0
        while not self._cancel.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._cancel.wait(), _LOOK_SECONDS)
            if not self.doomed and self.look() and (reason := self._ask()):
                self.doomed = reason
                (self._stage.inbox / STOP).touch()
                condemned_at = time.monotonic()
            if self.doomed and time.monotonic() - condemned_at >= self._grace_seconds:
                return

    def look(self) -> bool:
        """Take in what the trial has said since; whether there are new metrics."""
        self._traces.look()
        if self.broken:
            return False
        try:
            return self.stream.look()
        except Unreadable as error:
            self.broken = str(error)
            return False

    def _ask(self) -> str | None:
        return self._seen(self.stream.rows, self.stream.directions)
