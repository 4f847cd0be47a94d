"""How busy a machine is: the share of time in which something that could run waited for a CPU, or ran slower."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from loopty.kit.records import Record

_PRESSURE = Path("/proc/pressure/cpu")
_STAT = Path("/proc/stat")
_CPUS = Path("/sys/devices/system/cpu")
_STEAL = 8
"""The place of the time that other guests of the host took, in the first line."""
_IDLE = slice(3, 5)
"""The places of the time in which CPUs had nothing to do, or waited for a disk."""


class LoadSeen(Record):
    """The counters of the kernel at one moment; 0 where it has none."""

    at: float
    stalled_seconds: float
    """The time in which at least one task waited (pressure stall information)."""
    stolen: float
    """CPU time that the host gave to other guests, in ticks."""
    ticks: float
    """All CPU time."""
    idle: float = 0.0
    """That of it in which a CPU had nothing to do."""
    throttled_seconds: float = 0.0
    """The time in which a CPU ran at a lower frequency because it was too hot."""

    def share_until(self, later: LoadSeen) -> float:
        """Compute the share of the time in between that was lost, 0 to 1."""
        seconds, ticks = later.at - self.at, later.ticks - self.ticks
        waited = (later.stalled_seconds - self.stalled_seconds) / seconds if seconds > 0 else 0.0
        slowed = (later.throttled_seconds - self.throttled_seconds) / seconds if seconds > 0 else 0.0
        stolen = (later.stolen - self.stolen) / ticks if ticks > 0 else 0.0
        return min(max(waited, slowed, stolen, 0.0), 1.0)

    def free_share_until(self, later: LoadSeen) -> float:
        """Compute the share of all CPU time in between that was free; 1 where that is not counted."""
        ticks = later.ticks - self.ticks
        return (later.idle - self.idle) / ticks if ticks > 0 else 1.0


def load_now(pressure: Path = _PRESSURE, stat: Path = _STAT, cpus: Path = _CPUS) -> LoadSeen:
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
    ticks, idle = sum(counts[:_STEAL]), sum(counts[_IDLE])
    return LoadSeen(time.monotonic(), stalled, stolen, ticks, idle, _throttled_seconds(cpus))


def _throttled_seconds(cpus: Path) -> float:
    """Read for how long the CPU that lost most was throttled."""
    most = 0.0
    for count in cpus.glob("cpu[0-9]*/thermal_throttle/core_throttle_total_time_ms"):
        with contextlib.suppress(OSError, ValueError):
            most = max(most, float(count.read_text()) / 1e3)
    return most
