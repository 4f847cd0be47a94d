"""The ledger in one SQLite file, for the processes of one machine: its layout, and how it is opened."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw

from loopty.domain.errors import Misuse
from loopty.kit.paths import quote_path
from loopty.kit.process import at_work_end
from loopty.kit.safe_folder import SafeFolder
from loopty.kit.temporary_folder import make_temporary_folder
from loopty.record.database import LedgerBusy
from loopty.record.fold import Recorded
from loopty.record.history import FOLD_VERSION, History
from loopty.record.ledger import Ledger, OnProgress

CALL_EVENTS = (
    "kind IN ('call-reserved', 'call-settled', 'proposal-refused') "
    "OR (kind = 'node-added' AND body -> '$.calls' IS NOT NULL)"
)
"""Which events are about model calls. A partial index has them: a long record without calls costs nothing."""

VERSION = 5
"""The file's user_version. No release wrote another one, so there is nothing to migrate from."""

# What has an index hardly ever changes, so that an update of a node touches no index.
LAYOUT = f"""
CREATE TABLE events (
    number INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    digest BLOB NOT NULL,
    row_sum BLOB,
    seal BLOB
);
CREATE TABLE runs (
    place INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    part TEXT NOT NULL,
    entry TEXT NOT NULL,
    body TEXT NOT NULL,
    digest BLOB NOT NULL
);
CREATE TABLE nodes (
    handle INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    run INTEGER NOT NULL,
    pool TEXT NOT NULL,
    place_in_run INTEGER NOT NULL,
    place_in_pool INTEGER NOT NULL,
    parent INTEGER NOT NULL,
    added_at REAL NOT NULL,
    waits INTEGER NOT NULL,
    identity TEXT,
    verdict TEXT,
    ending TEXT,
    basis TEXT NOT NULL,
    score REAL,
    error_rate REAL,
    repeats INTEGER NOT NULL,
    judged INTEGER NOT NULL,
    is_plain INTEGER NOT NULL,
    seconds REAL NOT NULL,
    label TEXT NOT NULL,
    body TEXT NOT NULL,
    facts_digest BLOB NOT NULL,
    digest BLOB NOT NULL
);
CREATE TABLE fold (version INTEGER NOT NULL);
INSERT INTO fold VALUES ({FOLD_VERSION});
CREATE UNIQUE INDEX nodes_by_pool ON nodes (run, pool, place_in_pool);
CREATE INDEX nodes_by_parent ON nodes (run, parent, pool);
CREATE INDEX nodes_by_identity ON nodes (identity) WHERE identity IS NOT NULL;
CREATE INDEX waiting_nodes ON nodes (run, pool, handle) WHERE waits = 1;
CREATE INDEX call_events ON events (number) WHERE {CALL_EVENTS};
PRAGMA user_version = {VERSION};
"""


BUSY_TIMEOUT_MS = 120_000
_MOST_TRIES = 100
_SECONDS_BETWEEN_TRIES = 0.01
_FILES = ("", "-wal", "-shm", "-journal")
"""The suffixes of the files that SQLite makes for one ledger."""


def _close_all() -> None:
    """Fold the write-ahead logs into the ledgers: only an orderly close does that."""
    for connection in apsw.connections():
        connection.close()


class LedgerFile:
    """The file at one path, and whether this process may write it."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._path_text = str(self.path)
        self._folder = SafeFolder(self.path.parent.parent.resolve(), (self.path.parent.name,))
        self._identity: tuple[int, int] | None = None
        with self.explain_errors():
            self.reads_only = self._is_read_only()

    def open(self) -> apsw.Connection:
        """Open a connection to the file, which is created if there is none."""
        at_work_end(_close_all)
        with self.explain_errors():
            db = self._open_for_reading() if self.reads_only else self._open()
            self._identity = self._identity_now()
        return db

    @property
    def is_gone(self) -> bool:
        """Say whether it was removed or replaced since it was opened."""
        return self._identity_now() != self._identity

    def save_again(self, db: apsw.Connection) -> apsw.Connection:
        """Save everything again after the ledger was removed or replaced; returns a connection to the new file.

        SQLite still has the removed file open, so nothing is lost yet.
        """
        name = self.path.name
        if self._identity_now() is not None:
            name = f"{self.path.stem}-{os.getpid()}-{int(time.time())}{self.path.suffix}"
        with self.explain_errors():
            temporary = f"{name}.making-{os.getpid()}"
            target = self._open_new(temporary)
            with target.backup("main", db, "main") as backup:
                backup.step()
            target.close()
            self._folder.rename(temporary, name)
            db.close()
            self.path = self.path.with_name(name)
            self._path_text = str(self.path)
        return self.open()

    def _open_new(self, name: str) -> apsw.Connection:
        """Open a new file in the folder, again where somebody who clears up removes it, still empty, meanwhile."""
        for _ in range(_MOST_TRIES):
            try:
                return apsw.Connection(str(self._folder.make().path_for_programs() / name))
            except apsw.CantOpenError as error:
                last = error
                time.sleep(_SECONDS_BETWEEN_TRIES)
        raise last

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Turn SQLite's error for a damaged file or a full disk into one line with the remedy."""
        try:
            yield
        except apsw.Error as error:
            raise self.explanation(error) from error

    def explanation(self, error: apsw.Error) -> Misuse:
        """Explain SQLite's error in one line with the remedy."""
        if isinstance(error, apsw.FullError):
            return Misuse(f"the disk is full ({error}): free some space; everything recorded is safe")
        if isinstance(error, apsw.ReadOnlyError) or not os.access(self.path.parent, os.W_OK):
            return Misuse(f"the ledger {self.path} has become read-only: make it writable")
        doubts = "check its permissions, the free space and the health of the disk"
        return Misuse(f"cannot use the ledger {self.path}: {error} ({doubts})")

    def _open(self) -> apsw.Connection:
        # SQLite opens by path. The way to the folder was checked by handle when the state was opened, and only
        # this user can change it; here the files themselves are checked, and SQLite follows no link either.
        # They are not opened: closing a file ends all locks of the process on it.
        for suffix in _FILES:
            self._folder.file(self.path.name + suffix).exists()
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_NOFOLLOW
        db = apsw.Connection(str(self._folder.make().path_for_programs() / self.path.name), flags)
        db.set_busy_timeout(BUSY_TIMEOUT_MS)
        return db

    def _open_for_reading(self) -> apsw.Connection:
        """Open a ledger where no file can be made, which SQLite would need to read a write-ahead log."""
        ledger, log = (self._folder.file(self.path.name + suffix) for suffix in ("", "-wal"))
        if not log.size:
            address = f"file:{quote_path(str(ledger.path_for_programs()))}?immutable=1"
            return apsw.Connection(address, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        target = SafeFolder(make_temporary_folder("ledger").resolve())
        weakref.finalize(self, SafeFolder(target.root.parent, (target.root.name,)).remove_all)
        for file in (ledger, log):
            file.copy_to(target.file(file.name))
        return apsw.Connection(str(target.path_for_programs() / ledger.name))

    def _is_read_only(self) -> bool:
        try:
            with self._folder.handle() as folder:
                return not os.access(f"/proc/self/fd/{folder}", os.W_OK) and _exists(self.path.name, folder)
        except FileNotFoundError:
            return False

    def _identity_now(self) -> tuple[int, int] | None:
        """Tell which file is at the path; None if there is none."""
        try:
            status = os.lstat(self._path_text)
        except OSError:
            return None
        return status.st_dev, status.st_ino


class _NoFile(LedgerFile):
    """No file: the database is in memory, and gone with its connection."""

    def __init__(self) -> None:
        self.path = Path(":memory:")
        self.reads_only = False

    @property
    def is_gone(self) -> bool:
        return False

    def open(self) -> apsw.Connection:
        return apsw.Connection(":memory:")


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


# It uses apsw, which brings its own SQLite: releases before 3.51.3 can corrupt a write-ahead log that two
# connections reset at once, and the SQLite that Python links is often older.


T = TypeVar("T")
_MS_OF_A_SHORT_WAIT = 1_000


class SqliteDatabase:
    """The database in one file, or in memory."""

    call_events = CALL_EVENTS

    def __init__(self, file: LedgerFile | None) -> None:
        self._file = file or _NoFile()
        self._db = self._file.open()
        self.reads_only = self._file.reads_only
        self.is_writing = file is None
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
        try:
            with self._transaction("DEFERRED"):
                return question()
        except Misuse:
            if self._file.is_gone and not self.reads_only:
                self._save_again()
            raise

    @contextmanager
    def write(self) -> Iterator[None]:
        if self.reads_only:
            raise Misuse(f"{self._file.path} is read-only: make it and its folder writable")
        was_writing = self.is_writing
        try:
            with self._transaction("IMMEDIATE"):
                self.is_writing = True
                try:
                    yield
                finally:
                    self.is_writing = was_writing
        except Misuse:
            if self._file.is_gone:  # a file that was moved away looks read-only
                self._save_again()
            raise
        if self._file.is_gone:
            self._save_again()

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
        if self._switch_to_wal() not in ("wal", "memory"):
            raise Misuse(
                f"{self._file.path} is on a file system without shared memory (a network drive?): "
                "keep the repository on a local disk"
            )
        # A write is durable when it ends; with NORMAL, a WAL is only synced at checkpoints.
        self._db.execute("PRAGMA synchronous = FULL")
        if self._has_layout():
            return
        with self._transaction("IMMEDIATE"):
            if not self._has_layout():  # again: another process may have been faster
                self._db.execute(LAYOUT)

    def _switch_to_wal(self) -> str:
        """Return the journal mode afterwards. Waits for others that do the same, as SQLite itself does not."""
        end = time.monotonic() + BUSY_TIMEOUT_MS / 1_000
        while True:
            try:
                return str(self._db.execute("PRAGMA journal_mode = WAL").get)
            except apsw.BusyError:
                if time.monotonic() > end:
                    raise
                time.sleep(_SECONDS_BETWEEN_TRIES)

    def _has_layout(self) -> bool:
        """Say whether the tables are there. Raises Misuse if another loopty made them differently."""
        version = int(self._db.execute("PRAGMA user_version").get)
        if version in (0, VERSION):
            return version == VERSION
        age, remedy = ("a newer", "update loopty") if version > VERSION else ("an older", "move it away")
        raise Misuse(f"{self._file.path} was written by {age} loopty (schema {version}): {remedy}")


class SqliteLedger(Ledger):
    """A ledger in a file, whose writers are processes of this machine: lock files say whether they live."""

    def __init__(self, path: Path) -> None:
        super().__init__(SqliteDatabase(LedgerFile(path)))

    def history(self, on_progress: OnProgress | None = None) -> History:
        if self._database.reads_only and self.is_behind():
            return fold_in_memory(self.read())
        return super().history(on_progress)


class MemoryLedger(Ledger):
    """A ledger in memory, for tests and for use as a library."""

    def __init__(self) -> None:
        super().__init__(SqliteDatabase(None))


def fold_in_memory(events: Iterable[Recorded]) -> History:
    """Fold these events without a look at any table."""
    history = MemoryLedger().history()
    for recorded in events:
        history.apply_read(recorded)
    return history


def open_url(path: str) -> SqliteLedger:
    """Open the ledger in the file at this path."""
    return SqliteLedger(Path(path))


def open_in_memory(_path: str) -> MemoryLedger:
    """Make a new ledger, gone with the process."""
    return MemoryLedger()
