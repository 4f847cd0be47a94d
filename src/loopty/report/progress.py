"""Progress of `loopty optimize` while it runs, as the stream allows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Protocol, TextIO

from loopty.domain.task import Pools
from loopty.record.event import Recorded
from loopty.record.recorder import Recorder
from loopty.report.live_frame import LatestRow
from loopty.report.live_progress import LiveProgress
from loopty.report.plain_progress import PlainProgress
from loopty.report.terminal import Terminal

_SIZE_UNKNOWN = os.terminal_size((80, 24))


class Progress(Protocol):
    def on_event(self, recorded: Recorded) -> None:
        """For `Scribe.listeners`."""
        ...

    def tick(self) -> None:
        """To be called a few times per second, so that times move on while nothing ends."""
        ...

    def close(self) -> None: ...


def make_progress(
    recorder: Recorder,
    run: int,
    pools: Pools,
    out: TextIO,
    env: Mapping[str, str],
    clock: Callable[[], float],
    latest: LatestRow = lambda _: None,
) -> Progress:
    """`clock` is the recorder's."""
    look = Terminal.for_stream(out, env)
    if not out.isatty() or env.get("TERM") == "dumb":
        return PlainProgress(recorder, run, pools, out, look, clock)

    def size() -> os.terminal_size:
        try:
            found = os.get_terminal_size(out.fileno())
        except OSError:
            return _SIZE_UNKNOWN
        return found if found.columns and found.lines else _SIZE_UNKNOWN

    return LiveProgress(recorder, run, pools, out, look, clock, size, latest)
