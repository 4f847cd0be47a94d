"""How busy a machine is: the share of time in which something that could run had to wait for a CPU."""

from __future__ import annotations

import time
from pathlib import Path

from loopty.kit.records import Record

_PRESSURE = Path("/proc/pressure/cpu")
_STAT = Path("/proc/stat")
_STEAL = 8
"""The place of the time that other guests of the host took, in the first line."""


class LoadSeen(Record):
    """The counters of the kernel at one moment; 0 where it has none."""

    at: float
    stalled_seconds: float
    """The time in which at least one task waited (pressure stall information)."""
    stolen: float
    """CPU time that the host gave to other guests, in ticks."""
    ticks: float
    """All CPU time."""

    def share_until(self, later: LoadSeen) -> float:
        """Compute the share of the time in between that was lost to others, 0 to 1."""
        seconds, ticks = later.at - self.at, later.ticks - self.ticks
        waited = (later.stalled_seconds - self.stalled_seconds) / seconds if seconds > 0 else 0.0
        stolen = (later.stolen - self.stolen) / ticks if ticks > 0 else 0.0
        return min(max(waited, stolen, 0.0), 1.0)


def load_now(pressure: Path = _PRESSURE, stat: Path = _STAT) -> LoadSeen:
    """Read the counters. What a kernel does not count, or hides, reads as no load."""
    try:
        some = pressure.read_text().split("\n", 1)[0]
        stalled = float(some.rpartition("total=")[2]) / 1e6
    except (OSError, ValueError):
        stalled = 0.0
    try:
        counts = [float(word) for word in stat.read_text().split("\n", 1)[0].split()[1:]]
    except (OSError, ValueError):
        counts = []
    stolen = counts[_STEAL - 1] if len(counts) >= _STEAL else 0.0
    return LoadSeen(time.monotonic(), stalled, stolen, sum(counts[:_STEAL]))
