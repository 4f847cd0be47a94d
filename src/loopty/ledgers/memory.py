"""A ledger in memory, for tests and for use as a library."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from loopty.record.calls import is_about_calls
from loopty.record.fold import Recorded
from loopty.record.history import History
from loopty.record.ledger import LocalOwners, OnProgress, Owners
from loopty.record.pages import RUN_KEY, Page
from loopty.record.saved_nodes import NodesInMemory


class MemoryLedger:
    """Events in a list, shared by the threads of one process."""

    def __init__(self) -> None:
        self._events: list[Recorded] = []
        self._runs: dict[str, str] = {}
        self._nodes = NodesInMemory()
        self._saved_number = 0
        self._lock = threading.RLock()

    @contextmanager
    def write_lock(self) -> Iterator[MemoryWriteLock]:
        with self._lock:
            lock = MemoryWriteLock()
            yield lock
            self._events += lock.written
            if lock.pages is None:
                return
            self._saved_number = len(self._events)
            self._runs |= {key: page.body for key, page in lock.pages.items() if key.startswith(RUN_KEY)}
            self._nodes.save(lock.pages)

    def history(self, on_progress: OnProgress | None = None) -> History:  # noqa: ARG002
        with self._lock:
            history = History(self._nodes)
            self.update(history)
            return history

    def update(self, history: History) -> None:
        with self._lock:
            history.catch_up(len(self._events), self._saved_number, lambda: self._runs, self.read)

    def flaw(self, newest_events: int | None = None, newest_nodes: int | None = None) -> str | None:  # noqa: ARG002
        return None

    def now(self) -> float:
        return time.time()

    def is_away(self) -> bool:
        return False

    def wait_until_back(self) -> None:
        return

    def owners(self, local: LocalOwners) -> Owners:
        return local

    def read(self, after: int = 0) -> Iterator[Recorded]:
        return iter(self._events[after:])

    def read_calls(self) -> Iterator[Recorded]:
        return (recorded for recorded in self.read() if is_about_calls(recorded.event))


class MemoryWriteLock:
    """The events and pages that one holder of the lock adds."""

    def __init__(self) -> None:
        self.written: list[Recorded] = []
        self.pages: Mapping[str, Page] | None = None

    def write(self, events: Sequence[Recorded], pages: Mapping[str, Page] | None) -> None:
        self.written += events
        self.pages = pages


def open_url(_path: str) -> MemoryLedger:
    """Make a new ledger, gone with the process."""
    return MemoryLedger()
