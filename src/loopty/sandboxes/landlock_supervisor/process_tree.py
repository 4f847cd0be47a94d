"""Every process that a trial has started: found, counted, reaped, killed."""

# Without pathlib, whose import would take as long as all the rest.
# ruff: noqa: PTH123, PTH208
from __future__ import annotations

import os
import signal
from collections.abc import Iterator


class Descendants:
    """The descendants of this process, which is the one that inherits orphans."""

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}
        """How its children ended, as far as they are reaped."""

    def reap(self) -> bool:
        """Take note of the dead; false when there is no child any more."""
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self.statuses[ended[0]] = ended[1]
        except ChildProcessError:
            return False
        return True

    def kill(self) -> None:
        """Kill everyone and return when they are reaped."""
        while self.reap():
            for pid in self._descendants():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            # One that was being forked meanwhile has lost its parent by then, and is found in the next turn.
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                return
            self.statuses[pid] = status

    def thread_count(self) -> int:
        """How many threads there are over all processes."""
        self.reap()
        return sum(len(_entries(f"/proc/{pid}/task")) for pid in self._descendants())

    def _descendants(self) -> list[int]:
        found = list(_children(os.getpid()))
        for pid in found:
            found += _children(pid)
        return found


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
