"""Stop and continue a process tree by signals, where no cgroup can be frozen."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_FREEZING_SECONDS = 5.0
_PAUSE = 0.0002
_STILL = frozenset("TtZXxD")
"""States of a thread that has been sent SIGSTOP and uses no CPU: stopped, dead, or about to stop after a wait."""
_CALM_LOOKS = 2
"""A process may be forked, or continued by another one, between two looks."""


class SignalFreezer:
    """Stops the processes that `pids` finds, again and again until none of them runs."""

    counts_ended = False

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self._pids = pids

    def freeze(self) -> None:
        deadline = time.monotonic() + _FREEZING_SECONDS
        stopped: set[int] = set()
        calm = 0
        while calm < _CALM_LOOKS:
            moving = [pid for pid in self._pids() if pid not in stopped or _is_moving(pid)]
            for pid in moving:
                _send(pid, signal.SIGSTOP)
            stopped.update(moving)
            calm = 0 if moving else calm + 1
            if time.monotonic() > deadline:
                raise TimeoutError("the processes of a candidate do not stop")
            if moving:
                time.sleep(_PAUSE)

    def thaw(self) -> None:
        for pid in self._pids():
            _send(pid, signal.SIGCONT)

    def processes(self) -> Iterable[int]:
        return self._pids()

    def cpu_seconds(self) -> float:
        """The CPU time of the living processes and of the children that they have reaped."""
        return sum(map(_cpu_ticks, self._pids())) / _TICKS


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _is_moving(pid: int) -> bool:
    """Whether a thread of the process may run; its first one may be dead while others go on."""
    return any(fields[0] not in _STILL for fields in _thread_fields(pid))


def _thread_fields(pid: int) -> Iterator[list[str]]:
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                yield _fields(thread / "stat")


def _cpu_ticks(pid: int) -> int:
    with contextlib.suppress(OSError):
        # User and system time, of the process and of its reaped children: fields 11 to 14 after the name.
        return sum(map(int, _fields(Path(f"/proc/{pid}/stat"))[11:15]))
    return 0


def _fields(stat: Path) -> list[str]:
    """The fields after the name in parentheses, which may contain anything; the first is the state."""
    return stat.read_text(errors="replace").rpartition(")")[2].split()
