"""Watches the metrics of a running trial, and ends it when it should stop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping

from loopty.engine.protocols import OnMetrics, Stage
from loopty.evaluators import harvest
from loopty.evaluators.contract import METRICS, STOP
from loopty.evaluators.metrics import MetricsStream
from loopty.kit.untrusted_files import Unreadable

_POLL_SECONDS = 0.2


class MetricsWatch:
    """The metrics and traces of a running trial. `kill` is set when the trial has to end."""

    def __init__(self, stage: Stage, on_metrics: OnMetrics, grace_seconds: float, cancel: asyncio.Event) -> None:
        self._stage = stage
        self._on_metrics = on_metrics
        self._grace_seconds = grace_seconds
        self._cancel = cancel
        stage.folder.file(METRICS).remove()  # an earlier, cancelled trial may have left it
        self.stream = MetricsStream(stage.outbox.file(METRICS), copy=stage.folder.file(METRICS))
        self._traces = harvest.TraceCopies(stage.outbox.below("traces"), stage.folder.below("traces"))
        self.kill = asyncio.Event()
        self.prune_reason = ""
        self.fault = ""

    @property
    def last_metrics(self) -> Mapping[str, float]:
        """Return the last row of metrics, if any."""
        return self.stream.rows[-1].metrics if self.stream.rows else {}

    @property
    def last_step(self) -> float | None:
        """Return the step of the last row of metrics, if any."""
        return self.stream.rows[-1].step if self.stream.rows else None

    @contextlib.asynccontextmanager
    async def follow(self) -> AsyncIterator[None]:
        """Watch while the block runs. If the watch ends first, it sets `kill`, and so the trial ends.

        It begins after a fifth of a second, also to hear of a stop: a shorter trial is read once, at its end.
        """
        watching: list[asyncio.Task[None]] = []

        def begin() -> None:
            watching.append(asyncio.create_task(self._watch()))

        beginning = asyncio.get_running_loop().call_later(0 if self._cancel.is_set() else _POLL_SECONDS, begin)
        try:
            yield
        finally:
            beginning.cancel()
            for task in watching:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def _watch(self) -> None:
        try:
            await self._poll()
        finally:
            self.kill.set()

    async def _poll(self) -> None:
        pruned_at = 0.0
        while not self._cancel.is_set():
            if not self.prune_reason and self.read_new() and (reason := self._stop_reason()):
                self.prune_reason = reason
                self._stage.inbox.file(STOP).append(b"")
                pruned_at = time.monotonic()
            if self.prune_reason and time.monotonic() - pruned_at >= self._grace_seconds:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._cancel.wait(), _POLL_SECONDS)

    def read_new(self) -> bool:
        """Read what the trial has written since the last time; returns whether there are new metrics."""
        self._traces.copy_new()
        if self.fault:
            return False
        try:
            return self.stream.read_new()
        except Unreadable as error:
            self.fault = str(error)
            return False

    def _stop_reason(self) -> str | None:
        return self._on_metrics(self.stream.rows, self.stream.directions)
