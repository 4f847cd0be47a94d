"""Progress of `loopty optimize` while it runs: live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Protocol, TextIO

from loopty.domain.task import Noise, Pools
from loopty.record.event import Recorded
from loopty.record.recorder import Recorder
from loopty.report.live_frame import LatestRow
from loopty.report.live_progress import LiveProgress
from loopty.report.plain_progress import PlainProgress
from loopty.report.terminal import Terminal

_SIZE_UNKNOWN = os.terminal_size((80, 24))


class Progress(Protocol):
    """Shows the progress of a run."""

    def on_event(self, recorded: Recorded) -> None:
        """Show what the event changes; a listener for `Recorder.listeners`."""
        ...

    def tick(self) -> None:
        """Call this a few times per second, so that times move on between events."""
        ...

    def close(self) -> None:
        """Erase what must not stay on the screen."""
        ...


def make_progress(
    recorder: Recorder,
    run: int,
    pools: Pools,
    out: TextIO,
    env: Mapping[str, str],
    clock: Callable[[], float],
    latest: LatestRow = lambda _: None,
    noise: Noise | None = None,
    trials_at_once: int = 1,
) -> Progress:
    """The progress display that suits the stream; `clock` is the recorder's."""
    terminal = Terminal.for_stream(out, env)
    if not out.isatty() or env.get("TERM") == "dumb":
        return PlainProgress(recorder, run, pools, out, terminal, clock, noise, trials_at_once)

    def size() -> os.terminal_size:
        try:
            current = os.get_terminal_size(out.fileno())
        except OSError:
            return _SIZE_UNKNOWN
        return current if current.columns and current.lines else _SIZE_UNKNOWN

    return LiveProgress(recorder, run, pools, out, terminal, clock, size, latest, noise, trials_at_once)
