"""Find, count, reap and kill every process that a trial has started."""

# Without pathlib: its import would take as long as everything else.
# ruff: noqa: PTH123, PTH208
from __future__ import annotations

import os
import signal
from collections.abc import Iterator


class Descendants:
    """The descendants of this process, which inherits their orphans."""

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}
        """Exit statuses of the children reaped so far, by pid."""

    def reap(self) -> bool:
        """Reap the dead and keep their statuses; false when no child is left."""
        try:
            while (dead := os.waitpid(-1, os.WNOHANG))[0]:
                self.statuses[dead[0]] = dead[1]
        except ChildProcessError:
            return False
        return True

    def kill(self) -> None:
        """Kill all descendants and return when they are reaped."""
        while self.reap():
            for pid in self._descendants():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            # A process forked in the meantime has lost its parent by then, and the next pass finds it.
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                return
            self.statuses[pid] = status

    def thread_count(self) -> int:
        """The number of threads of all descendants."""
        self.reap()
        return sum(len(_entries(f"/proc/{pid}/task")) for pid in self._descendants())

    def _descendants(self) -> list[int]:
        pids = list(_children(os.getpid()))
        for pid in pids:
            pids += _children(pid)
        return pids


def _children(pid: int) -> Iterator[int]:
    for task in _entries(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                words = file.read().split()
        except OSError:
            continue
        yield from map(int, words)


def _entries(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
