"""A process that is forked before the ledger is opened, and becomes a worker for tickets when it is told to.

A process that has the ledger open must not fork: both would use one connection.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from loopty.kit.quick_exit import exit_status

_GO = b"!"


class StandbyWorker:
    """Outlives this process, its session and its host; ends at once when this process ends without `start`."""

    def __init__(self, start: Path) -> None:
        """`start` is a directory of the repository."""
        reading, self._writing = os.pipe()
        if first := os.fork():
            os.close(reading)
            os.waitpid(first, 0)
            return
        # Twice, and with a session of its own: some hosts kill the descendants of what they started.
        os.setsid()
        if os.fork():
            os._exit(0)
        os._exit(_stand_by(reading, start))

    def start(self) -> None:
        """Let it run the open tickets."""
        if self._writing >= 0:
            os.write(self._writing, _GO)
            self.close()

    def close(self) -> None:
        """Let it end, if it was not started."""
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1


def _stand_by(reading: int, start: Path) -> int:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
        if number > 2 and number != reading:
            with contextlib.suppress(OSError):
                os.close(number)
    if os.read(reading, 1) != _GO:
        return 0
    os.close(reading)
    from loopty.campaign.ticket_worker import run_open_tickets

    return exit_status(lambda: run_open_tickets(start))
