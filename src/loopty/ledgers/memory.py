"""A ledger in memory, for tests and for use as a library."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from loopty.record.event import Recorded
from loopty.record.history import History


class MemoryLedger:
    """Events in a list, shared by the threads of one process."""

    def __init__(self) -> None:
        self._events: list[Recorded] = []
        self._pages: dict[str, str] = {}
        self._lock = threading.RLock()

    @contextmanager
    def write_lock(self) -> Iterator[MemoryWriteLock]:
        with self._lock:
            lock = MemoryWriteLock(self._events)
            yield lock
            self._events += lock.written
            self._pages |= lock.pages

    def history(self) -> History:
        with self._lock:
            return History.open(len(self._events), list(self._pages.items()))

    def flaw(self, newest_events: int | None = None) -> str | None:  # noqa: ARG002
        return None

    def read(self, after: int = 0) -> Iterator[Recorded]:
        return iter(self._events[after:])


class MemoryWriteLock:
    """The events that one holder of the lock reads and adds."""

    def __init__(self, events: Sequence[Recorded]) -> None:
        self._events = events
        self.written: list[Recorded] = []
        self.pages: dict[str, str] = {}

    def events_after(self, number: int) -> Iterator[Recorded]:
        return iter(self._events[number:])

    def write(self, events: Sequence[Recorded], pages: Mapping[str, str]) -> None:
        self.written += events
        self.pages |= pages


def open_url(_path: str) -> MemoryLedger:
    """A new ledger, gone with the process."""
    return MemoryLedger()
