"""Progress on a terminal: a few lines, drawn over themselves."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TextIO

from loopty.domain.task import Pools
from loopty.record.event import Recorded
from loopty.record.recorder import Recorder
from loopty.record.spend import CallSettled
from loopty.record.verdicts import NodeJudged
from loopty.report.columns import cut, width
from loopty.report.live_frame import Latest, Line, frame
from loopty.report.outlet import Outlet
from loopty.report.pace import Pace
from loopty.report.terminal import Look
from loopty.views.run_status import status

_SECONDS_BETWEEN_FRAMES = 0.25


class Live:
    """Listens to a recorder. Hearing an event costs O(1); drawing is bounded to a few frames per second."""

    def __init__(
        self,
        recorder: Recorder,
        run: int,
        pools: Pools,
        out: TextIO,
        look: Look,
        clock: Callable[[], float],
        size: Callable[[], os.terminal_size],
        latest: Latest,
    ) -> None:
        self._recorder = recorder
        self._run = run
        self._pools = pools
        self._out = Outlet(out)
        self._look = look
        self._clock = clock
        self._size = size
        self._latest = latest
        self._pace = Pace(clock())
        self._last: NodeJudged | None = None
        self._failure = ""
        """Why the last call of a model gave no reply."""
        self._drawn_at = 0.0
        self._drawn: list[int] = []
        """The widths of the lines on the screen."""

    def heard(self, recorded: Recorded) -> None:
        self._pace.heard(recorded)
        if isinstance(recorded.event, NodeJudged):
            self._last = recorded.event
        elif isinstance(recorded.event, CallSettled) and recorded.event.usage:
            self._failure = recorded.event.failure
        self.tick()

    def tick(self) -> None:
        """Draw if it is time to."""
        now = self._clock()
        if abs(now - self._drawn_at) >= _SECONDS_BETWEEN_FRAMES:
            self._draw(now)

    def close(self) -> None:
        """Leave the screen as it was."""
        self._out.write(self._erased(self._size().columns))
        self._drawn = []

    def _draw(self, now: float) -> None:
        history = self._recorder.history
        run = history.runs.get(self._run)
        if run is None:
            return  # a write failed, and the recorder has yet to catch up
        size = self._size()
        # The last column stays free: some terminals wrap when it is filled.
        columns = max(size.columns - 1, 1)
        found = status(history, run, now, lambda _: True, self._pools)
        lines = frame(found, self._pace.tempo(now), self._last, self._latest, columns)
        if self._failure:
            lines.append(Line(cut(f"no reply of a model: {self._failure}", columns), "warn"))
        lines = lines[: max(size.lines - 1, 1)]
        text = "".join(self._look.paint(line.text, line.style) + "\n" for line in lines)
        self._out.write(self._erased(size.columns) + self._look.finished(text))
        self._drawn = [width(line.text) for line in lines]
        self._drawn_at = now

    def _erased(self, columns: int) -> str:
        """What clears the lines drawn before. A terminal made narrower has wrapped them."""
        rows = sum(max(-(-drawn // max(columns, 1)), 1) for drawn in self._drawn)
        return f"\x1b[{rows}F\x1b[J" if rows else ""
