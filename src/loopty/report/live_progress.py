"""Progress on a terminal: a few lines that redraw themselves."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TextIO

from loopty.domain.task import Noise, Pools
from loopty.record.calls import CallSettled
from loopty.record.event import Recorded
from loopty.record.recorder import Recorder
from loopty.record.verdicts import NodeJudged
from loopty.report.columns import cut, width
from loopty.report.control_codes import control_code
from loopty.report.live_frame import FrameLine, LatestRow, frame
from loopty.report.outlet import Outlet
from loopty.report.pace import Pace
from loopty.report.terminal import Terminal
from loopty.views.run_status import status

_SECONDS_BETWEEN_FRAMES = 0.25


class LiveProgress:
    """Listens to a recorder. An event costs O(1); drawing is limited to a few frames per second."""

    def __init__(
        self,
        recorder: Recorder,
        run: int,
        pools: Pools,
        out: TextIO,
        terminal: Terminal,
        clock: Callable[[], float],
        size: Callable[[], os.terminal_size],
        latest: LatestRow,
        noise: Noise | None = None,
        trials_at_once: int = 1,
    ) -> None:
        self._recorder = recorder
        self._run = run
        self._pools = pools
        self._noise = noise
        self._trials_at_once = trials_at_once
        self._out = Outlet(out)
        self._terminal = terminal
        self._clock = clock
        self._size = size
        self._latest = latest
        self._pace = Pace(clock())
        self._last: NodeJudged | None = None
        self._failure = ""
        """Why the last model call gave no reply; empty if it gave one."""
        self._drawn_at = 0.0
        self._line_widths: list[int] = []
        """The widths of the lines on the screen."""

    def on_event(self, recorded: Recorded) -> None:
        self._pace.on_event(recorded)
        if isinstance(recorded.event, NodeJudged):
            self._last = recorded.event
        elif isinstance(recorded.event, CallSettled) and recorded.event.usage:
            self._failure = recorded.event.failure
        self.tick()

    def tick(self) -> None:
        """Draw a frame if it is due."""
        now = self._clock()
        if abs(now - self._drawn_at) >= _SECONDS_BETWEEN_FRAMES:
            self._draw(now)

    def close(self) -> None:
        """Erase the display."""
        self._out.write(self._erase_code(self._size().columns))
        self._line_widths = []

    def _draw(self, now: float) -> None:
        history = self._recorder.history
        run = history.runs.get(self._run)
        if run is None:
            return  # a write failed, and the recorder has not caught up yet
        size = self._size()
        # The last column stays free: some terminals wrap when it is filled.
        columns = max(size.columns - 1, 1)
        current = status(history, run, now, lambda _: True, self._pools, self._trials_at_once, self._noise)
        handle = history.handle(self._last.node) if self._last else 0
        lines = frame(current, self._pace.throughput(now), self._last, handle, self._latest, columns)
        if self._failure:
            lines.append(FrameLine(cut(f"no reply from a model: {self._failure}", columns), "warn"))
        lines = lines[: max(size.lines - 1, 1)]
        text = "".join(self._terminal.paint(line.text, line.style) + "\n" for line in lines)
        self._out.write(self._erase_code(size.columns) + self._terminal.render(text))
        self._line_widths = [width(line.text) for line in lines]
        self._drawn_at = now

    def _erase_code(self, columns: int) -> str:
        """The escape code that clears the drawn lines. A terminal that became narrower has wrapped them."""
        rows = sum(max(-(-line_width // max(columns, 1)), 1) for line_width in self._line_widths)
        return f"{control_code(str(rows))}F{control_code('J')}" if rows else ""
