"""The ledger in one SQLite file: many processes, one durable commit per decision.

It uses apsw, which brings its own SQLite: releases before 3.51.3 can corrupt a write-ahead log that two
connections reset at once, and the SQLite that Python links is often older.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from loopty.domain.errors import Misuse
from loopty.ledgers.digests import NOTHING, event_digest
from loopty.ledgers.sqlite_check import record_flaw
from loopty.ledgers.sqlite_file import BUSY_TIMEOUT_MS, LedgerFile
from loopty.ledgers.sqlite_layout import CALL_EVENTS, EVENT, MIGRATIONS, WITH_DIGESTS
from loopty.ledgers.sqlite_pages import SqlitePages
from loopty.ledgers.sqlite_writes import SqliteWriteLock, Tail
from loopty.record.event import Recorded
from loopty.record.history import FOLD_VERSION, History
from loopty.record.ledger import OnProgress

_EVENTS_PER_SAVE = 20_000
"""While pages are rebuilt."""
_MS_BETWEEN_REPORTS = 1_000
"""While another process rebuilds them."""


class SqliteLedger:
    """Events and the pages of their fold. Use it from one thread; any number of processes may open the file."""

    def __init__(self, path: Path) -> None:
        self._file = LedgerFile(path)
        self._db = self._file.open()
        self._pages = SqlitePages(self._db)
        self._tail: Tail | None = None
        """What the last write of this process left, so that the next one need not ask."""
        with self._file.explain_errors():
            self._prepare()

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def write_lock(self) -> Iterator[SqliteWriteLock]:
        if self._file.reads_only:
            raise Misuse(f"{self._file.path} is read-only: make it and its folder writable")
        with self._file.explain_errors(), self._transaction("IMMEDIATE"):
            lock = SqliteWriteLock(self._db, self._pages, self._tail)
            yield lock
        self._tail = lock.tail
        if self._file.is_gone:
            self._save_again()

    def history(self, on_progress: OnProgress | None = None) -> History:
        version = self._fold_version()
        if version != FOLD_VERSION and self._file.reads_only:
            return self._fold()
        if version != FOLD_VERSION:
            self._rebuild_pages(on_progress)
        with self._file.explain_errors(), self._one_moment():
            return History.open(self._last_number(), self._pages.runs(), self._pages)

    def update(self, history: History) -> None:
        with self._file.explain_errors(), self._one_moment():
            if (number := self._last_number()) != history.number:
                history.update(number, self._pages.runs())

    def read(self, after: int = 0) -> Iterator[Recorded]:
        with self._file.explain_errors():
            yield from _events(self._db, after)

    def read_calls(self) -> Iterator[Recorded]:
        with self._file.explain_errors():
            yield from _events(self._db, 0, f"AND ({CALL_EVENTS})")

    def flaw(self, newest_events: int | None = None, newest_nodes: int | None = None) -> str | None:
        with self._file.explain_errors(), self._one_moment():
            return record_flaw(self._db, self._pages, newest_events, newest_nodes)

    def _save_again(self) -> None:
        """Save everything again after the ledger was removed or replaced, and say so. Raises Misuse."""
        self._db = self._file.save_again(self._db)
        self._pages.use(self._db)
        with self._file.explain_errors():
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
        raise Misuse(
            f"the ledger was removed or replaced while loopty ran: all its events are saved in {self._file.path}, "
            "so nothing is lost; start again to continue"
        )

    def _fold(self) -> History:
        history = History()
        for recorded in self.read():
            history.apply(recorded)
        return history

    def _rebuild_pages(self, on_progress: OnProgress | None) -> None:
        """Rebuild the pages from the events: the saved ones come from an older version of the fold.

        One process does so, and the others wait for it, however long that takes.
        """
        self._db.set_busy_timeout(_MS_BETWEEN_REPORTS)
        try:
            while self._fold_version() != FOLD_VERSION:
                try:
                    self._rebuild_in_lock(on_progress)
                except Misuse as error:
                    if not isinstance(error.__cause__, apsw.BusyError):
                        raise
                    if on_progress:
                        on_progress(0, self._last_number())
        finally:
            self._db.set_busy_timeout(BUSY_TIMEOUT_MS)

    def _rebuild_in_lock(self, on_progress: OnProgress | None) -> None:
        with self.write_lock() as lock:
            if self._fold_version() == FOLD_VERSION:  # another process was faster
                return
            self._pages.clear()
            history, total, count = History(self._pages), NOTHING, self._last_number()
            for recorded in self.read():
                history.apply(recorded)
                if recorded.number % _EVENTS_PER_SAVE == 0:  # so that a long record needs little memory
                    total = self._pages.write(history.take_changed_pages(), total)
                    if on_progress:
                        on_progress(recorded.number, count)
            lock.seal(self._pages.write(history.take_changed_pages(), total))
            self._db.execute("UPDATE fold SET version = ?", (FOLD_VERSION,))

    def _prepare(self) -> None:
        if self._file.reads_only:
            if self._version() != len(MIGRATIONS):
                raise Misuse(
                    f"{self._file.path} comes from another version and is read-only: make it writable once"
                )
            return
        mode = self._db.execute("PRAGMA journal_mode = WAL").get
        if mode != "wal":
            raise Misuse(
                f"{self._file.path} is on a file system without shared memory (a network drive?): "
                "keep the repository on a local disk"
            )
        self._db.execute("PRAGMA synchronous = FULL")
        if self._version() == len(MIGRATIONS):
            return
        with self._transaction("IMMEDIATE"):
            version = self._version()  # again: another process may have been faster
            if version > len(MIGRATIONS):
                raise Misuse(f"{self._file.path} was written by a newer loopty (schema {version}): update loopty")
            for migration in MIGRATIONS[version:]:
                self._db.execute(migration)
            if version < WITH_DIGESTS:
                self._add_digests()
            self._db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")

    def _add_digests(self) -> None:
        """Give the events of an older layout their digests; the pages get theirs when they are rebuilt."""
        last = NOTHING
        events: list[Any] = self._db.execute(f"SELECT {EVENT} FROM events ORDER BY number").fetchall()
        for number, at, kind, body in events:
            last = event_digest(last, number, at, kind, body)
            self._db.execute("UPDATE events SET digest = ? WHERE number = ?", (last, number))

    def _last_number(self) -> int:
        return int(self._db.execute("SELECT coalesce(max(number), 0) FROM events").get)

    @contextmanager
    def _one_moment(self) -> Iterator[None]:
        """Read in one transaction, so that all of it belongs to the same moment; a writer has one already."""
        if self._db.in_transaction:
            yield
            return
        with self._transaction("DEFERRED"):
            yield

    def _fold_version(self) -> object:
        with self._file.explain_errors():
            version: object = self._db.execute("SELECT version FROM fold").get
        return version

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").get)

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[None]:
        self._db.execute(f"BEGIN {kind}")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            self._pages.forget_sizes()
            if self._db.in_transaction:  # a full disk may have ended it already
                self._db.execute("ROLLBACK")
            raise


def _events(db: apsw.Connection, after: int, only: str = "") -> Iterator[Recorded]:
    from loopty.record.families import decode_event  # reading verbs open saved pages, and need no events

    rows = db.execute(f"SELECT {EVENT} FROM events WHERE number > ? {only} ORDER BY number", (after,))
    for number, at, kind, body in rows:
        yield Recorded(number, at, decode_event(kind, body))


def open_url(path: str) -> SqliteLedger:
    """The ledger in the file at this path."""
    return SqliteLedger(Path(path))
