"""SQLite as the database of a ledger.

It uses apsw, which brings its own SQLite: releases before 3.51.3 can corrupt a write-ahead log that two
connections reset at once, and the SQLite that Python links is often older.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw

from loopty.domain.errors import Misuse
from loopty.ledgers.rows import LedgerBusy
from loopty.ledgers.sqlite_file import BUSY_TIMEOUT_MS, LedgerFile
from loopty.ledgers.sqlite_layout import CALL_EVENTS, LAYOUT, VERSION

T = TypeVar("T")
_MS_OF_A_SHORT_WAIT = 1_000
_SECONDS_BETWEEN_TRIES = 0.01


class SqliteDatabase:
    """The database in one file."""

    call_events = CALL_EVENTS

    def __init__(self, path: Path) -> None:
        self._file = LedgerFile(path)
        self._db = self._file.open()
        self.reads_only = self._file.reads_only
        with self._file.explain_errors():
            self._prepare()

    def close(self) -> None:
        self._db.close()

    def now(self) -> float:
        return time.time()

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[Any]:
        try:
            return self._db.execute(query, parameters).fetchall()
        except apsw.Error as error:
            raise self._file.explanation(error) from error

    def row(self, query: str, parameters: Sequence[Any] = ()) -> Any:
        rows = self.rows(query, parameters)
        return rows[0] if rows else None

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        try:
            self._db.execute(statement, parameters)
        except apsw.Error as error:
            raise self._file.explanation(error) from error

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        try:
            self._db.executemany(statement, rows)
        except apsw.Error as error:
            raise self._file.explanation(error) from error

    def read(self, question: Callable[[], T]) -> T:
        if self._db.in_transaction:
            return question()
        with self._transaction("DEFERRED"):
            return question()

    @contextmanager
    def write(self) -> Iterator[None]:
        if self.reads_only:
            raise Misuse(f"{self._file.path} is read-only: make it and its folder writable")
        with self._transaction("IMMEDIATE"):
            yield
        if self._file.is_gone:
            self._save_again()

    def content_mark(self) -> int | None:
        return self._db.data_version()

    @contextmanager
    def short_waits(self) -> Iterator[None]:
        self._db.set_busy_timeout(_MS_OF_A_SHORT_WAIT)
        try:
            yield
        finally:
            self._db.set_busy_timeout(BUSY_TIMEOUT_MS)

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[None]:
        try:
            self._db.execute(f"BEGIN {kind}")
        except apsw.BusyError as error:
            raise LedgerBusy(str(self._file.explanation(error))) from error
        except apsw.Error as error:
            raise self._file.explanation(error) from error
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # a full disk may have ended it already
                self._db.execute("ROLLBACK")
            raise

    def _save_again(self) -> None:
        """Save everything again after the ledger was removed or replaced, and say so. Raises Misuse."""
        self._db = self._file.save_again(self._db)
        with self._file.explain_errors():
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
        raise Misuse(
            f"the ledger was removed or replaced while loopty ran: all its events are saved in {self._file.path}, "
            "so nothing is lost; start again to continue"
        )

    def _prepare(self) -> None:
        if self.reads_only:
            if not self._has_layout():
                raise Misuse(f"{self._file.path} is empty and read-only: make it writable once")
            return
        if self._switch_to_wal() != "wal":
            raise Misuse(
                f"{self._file.path} is on a file system without shared memory (a network drive?): "
                "keep the repository on a local disk"
            )
        self._db.execute("PRAGMA synchronous = FULL")
        if self._has_layout():
            return
        with self._transaction("IMMEDIATE"):
            if not self._has_layout():  # again: another process may have been faster
                self._db.execute(LAYOUT)

    def _switch_to_wal(self) -> str:
        """The journal mode afterwards. Waits for others that do the same, as SQLite itself does not."""
        end = time.monotonic() + BUSY_TIMEOUT_MS / 1_000
        while True:
            try:
                return str(self._db.execute("PRAGMA journal_mode = WAL").get)
            except apsw.BusyError:
                if time.monotonic() > end:
                    raise
                time.sleep(_SECONDS_BETWEEN_TRIES)

    def _has_layout(self) -> bool:
        """Whether the tables are there. Raises Misuse where another loopty made them differently."""
        version = int(self._db.execute("PRAGMA user_version").get)
        if version in (0, VERSION):
            return version == VERSION
        age, remedy = ("a newer", "update loopty") if version > VERSION else ("an older", "move it away")
        raise Misuse(f"{self._file.path} was written by {age} loopty (schema {version}): {remedy}")
