"""The ledger in one SQLite file: many processes, one durable commit per decision.

It uses apsw, which brings its own SQLite: releases before 3.51.3 can corrupt a write-ahead log that two
connections reset at once, and the SQLite that Python links is often older.
"""

from __future__ import annotations

import atexit
import os
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from loopty.domain.errors import Misuse
from loopty.kit.dataclass import dataclass
from loopty.kit.safe_folder import SafeFolder
from loopty.kit.temporary_folder import make_temporary_folder
from loopty.ledgers.digests import NOTHING, event_digest, seal_digest
from loopty.ledgers.sqlite_layout import CALL_EVENTS, MIGRATIONS, WITH_DIGESTS
from loopty.ledgers.sqlite_pages import SqlitePages
from loopty.record.event import Recorded
from loopty.record.history import FOLD_VERSION, History
from loopty.record.pages import Page

_BUSY_TIMEOUT_MS = 120_000
_EVENTS_PER_SAVE = 20_000
"""While pages are rebuilt."""
_EVENT, _DIGESTS = "number, at, kind, body", "digest, page_sum, seal"
_FILES = ("", "-wal", "-shm", "-journal")
"""The suffixes of the files that SQLite makes for one ledger."""


@atexit.register
def _close_all() -> None:
    """Fold the write-ahead logs into the ledgers: only an orderly close does that."""
    for connection in apsw.connections():
        connection.close()


class SqliteLedger:
    """Events and the pages of their fold. Use it from one thread; any number of processes may open the file."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._folder = SafeFolder(self._path.parent.parent.resolve(), (self._path.parent.name,))
        with self._explain_errors():
            self._reads_only = self._is_read_only()
            self._db = self._open_for_reading() if self._reads_only else self._open()
            self._pages = SqlitePages(self._db)
            self._identity = self._file_identity()
            self._tail: Tail | None = None
            """What the last write of this process left, so that the next one need not ask."""
            self._prepare()

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def write_lock(self) -> Iterator[SqliteWriteLock]:
        if self._reads_only:
            raise Misuse(f"{self._path} is read-only: make it and its folder writable")
        with self._explain_errors(), self._transaction("IMMEDIATE"):
            lock = SqliteWriteLock(self._db, self._pages, self._tail)
            yield lock
        self._tail = lock.tail
        if self._file_identity() != self._identity:
            self._restore()

    def history(self) -> History:
        with self._explain_errors():
            version = self._db.execute("SELECT version FROM fold").get
        if version != FOLD_VERSION and self._reads_only:
            return self._fold()
        if version != FOLD_VERSION:
            self._rebuild_pages()
        with self._explain_errors(), self._one_moment():
            return History.open(self._last_number(), self._pages.runs(), self._pages)

    def update(self, history: History) -> None:
        with self._explain_errors(), self._one_moment():
            if (number := self._last_number()) != history.number:
                history.update(number, self._pages.runs())

    def read(self, after: int = 0) -> Iterator[Recorded]:
        with self._explain_errors():
            yield from _events(self._db, after)

    def read_calls(self) -> Iterator[Recorded]:
        with self._explain_errors():
            yield from _events(self._db, 0, f"AND ({CALL_EVENTS})")

    def flaw(self, newest_events: int | None = None, newest_nodes: int | None = None) -> str | None:
        with self._explain_errors(), self._one_moment():
            last, fault = self._check_events(newest_events)
            if fault:
                return fault
            seals: Any = "SELECT page_sum, seal FROM events ORDER BY number DESC LIMIT 1"
            total, seal = self._db.execute(seals).get or (NOTHING, None)
            if newest_nodes is None or self._pages.count() <= newest_nodes:
                found = self._pages.first_change()
                changed, total = (found, total) if isinstance(found, str) else (None, found)
            else:
                changed = self._pages.first_change_among_newest(newest_nodes)
            if changed := changed or self._pages.first_change_seen():
                return f"the record of {changed if changed.startswith('run ') else f'node {changed}'} was changed"
            if (seal_digest(last, total or NOTHING) if last != NOTHING else None) != seal:
                return "events or nodes were added or removed"
        return None

    def _check_events(self, newest: int | None) -> tuple[bytes, str | None]:
        """The digest of the last event, and what was changed in all events or in the newest ones, or None."""
        start: Any = None
        if newest is not None:
            before = "SELECT number, digest FROM events ORDER BY number DESC LIMIT 1 OFFSET ?"
            start = self._db.execute(before, (newest,)).get
        after, last = start or (0, NOTHING)
        chain = f"SELECT {_EVENT}, digest FROM events WHERE number > ? ORDER BY number"
        events: Iterator[Any] = self._db.execute(chain, (after,))
        for number, at, kind, body, digest in events:
            last = event_digest(last, number, at, kind, body)
            if last != digest:
                return last, f"event {number} was changed, or one before it removed"
        return last, None

    def _open(self) -> apsw.Connection:
        # SQLite opens by path. The way to the folder was checked by handle when the state was opened, and only
        # this user can change it; here the files themselves are checked, and SQLite follows no link either.
        for suffix in _FILES:
            self._folder.file(self._path.name + suffix).exists()
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_NOFOLLOW
        db = apsw.Connection(str(self._folder.make().path_for_programs() / self._path.name), flags)
        db.set_busy_timeout(_BUSY_TIMEOUT_MS)
        return db

    def _open_for_reading(self) -> apsw.Connection:
        """Open a ledger where no file can be made, which SQLite would need to read a write-ahead log."""
        ledger, log = (self._folder.file(self._path.name + suffix) for suffix in ("", "-wal"))
        if not log.size:
            address = f"file:{quote(str(ledger.path_for_programs()))}?immutable=1"
            return apsw.Connection(address, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        target = SafeFolder(make_temporary_folder("ledger").resolve())
        weakref.finalize(self, SafeFolder(target.root.parent, (target.root.name,)).remove_all)
        for file in (ledger, log):
            file.copy_to(target.file(file.name))
        return apsw.Connection(str(target.path_for_programs() / ledger.name))

    def _is_read_only(self) -> bool:
        try:
            with self._folder.handle() as folder:
                return not os.access(f"/proc/self/fd/{folder}", os.W_OK) and _exists(self._path.name, folder)
        except FileNotFoundError:
            return False

    def _file_identity(self) -> tuple[int, int] | None:
        """Which file is at the ledger's path; None if there is none."""
        try:
            status = self._path.lstat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _restore(self) -> None:
        """Save everything again after the ledger was removed or replaced, and say so. Raises Misuse.

        SQLite still has the removed file open, so nothing is lost yet.
        """
        name = self._path.name
        if self._file_identity() is not None:
            name = f"{self._path.stem}-{os.getpid()}-{int(time.time())}{self._path.suffix}"
        with self._explain_errors():
            temporary = f"{name}.making-{os.getpid()}"
            target = apsw.Connection(str(self._folder.make().path_for_programs() / temporary))
            with target.backup("main", self._db, "main") as backup:
                backup.step()
            target.close()
            self._folder.rename(temporary, name)
            self._db.close()
            self._path = self._path.with_name(name)
            self._db = self._open()
            self._pages.use(self._db)
            self._identity = self._file_identity()
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
        raise Misuse(
            f"the ledger was removed or replaced while loopty ran: all its events are saved in {self._path}, "
            "so nothing is lost; start again to continue"
        )

    def _fold(self) -> History:
        history = History()
        for recorded in self.read():
            history.apply(recorded)
        return history

    def _rebuild_pages(self) -> None:
        """Rebuild the pages from the events: the saved ones come from an older version of the fold."""
        with self.write_lock() as lock:
            self._pages.clear()
            history, total = History(self._pages), NOTHING
            for recorded in self.read():
                history.apply(recorded)
                if recorded.number % _EVENTS_PER_SAVE == 0:  # so that a long record needs little memory
                    total = self._pages.write(history.take_changed_pages(), total)
            lock.seal(self._pages.write(history.take_changed_pages(), total))
            self._db.execute("UPDATE fold SET version = ?", (FOLD_VERSION,))

    def _prepare(self) -> None:
        if self._reads_only:
            if self._version() != len(MIGRATIONS):
                raise Misuse(f"{self._path} comes from another version and is read-only: make it writable once")
            return
        mode = self._db.execute("PRAGMA journal_mode = WAL").get
        if mode != "wal":
            raise Misuse(
                f"{self._path} is on a file system without shared memory (a network drive?): "
                "keep the repository on a local disk"
            )
        self._db.execute("PRAGMA synchronous = FULL")
        if self._version() == len(MIGRATIONS):
            return
        with self._transaction("IMMEDIATE"):
            version = self._version()  # again: another process may have been faster
            if version > len(MIGRATIONS):
                raise Misuse(f"{self._path} was written by a newer loopty (schema {version}): update loopty")
            for migration in MIGRATIONS[version:]:
                self._db.execute(migration)
            if version < WITH_DIGESTS:
                self._add_digests()
            self._db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")

    def _add_digests(self) -> None:
        """Give the events of an older layout their digests; the pages get theirs when they are rebuilt."""
        last = NOTHING
        events: list[Any] = self._db.execute(f"SELECT {_EVENT} FROM events ORDER BY number").fetchall()
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

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Turn SQLite's error for a damaged file or a full disk into one line with the remedy."""
        try:
            yield
        except apsw.FullError as error:
            raise Misuse(f"the disk is full ({error}): free some space; everything recorded is safe") from error
        except apsw.Error as error:
            if isinstance(error, apsw.ReadOnlyError) or not os.access(self._path.parent, os.W_OK):
                raise Misuse(f"the ledger {self._path} has become read-only: make it writable") from error
            doubts = "check its permissions, the free space and the health of the disk"
            raise Misuse(f"cannot use the ledger {self._path}: {error} ({doubts})") from error


@dataclass(frozen=True, slots=True)
class Tail:
    """The digests after the last event."""

    number: int
    event: bytes
    page_sum: bytes


class SqliteWriteLock:
    """A write transaction."""

    def __init__(self, db: apsw.Connection, pages: SqlitePages, tail: Tail | None) -> None:
        self._db = db
        self._pages = pages
        self.tail = tail

    def write(self, events: Sequence[Recorded], pages: Mapping[str, Page]) -> None:
        from loopty.record.families import encode_event

        tail = self._tail_before(events[0].number)
        digest, total, rows = tail.event, self._pages.write(pages, tail.page_sum), []
        for item in events:
            kind, body = encode_event(item.event)
            digest = event_digest(digest, item.number, item.at, kind, body)
            # Only the last one is sealed: in between, the pages do not belong to the events.
            seals = (total, seal_digest(digest, total)) if item is events[-1] else (None, None)
            rows.append((item.number, item.at, kind, body, digest, *seals))
        self._db.executemany(f"INSERT INTO events ({_EVENT}, {_DIGESTS}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        self.tail = Tail(events[-1].number, digest, total)

    def seal(self, total: bytes) -> None:
        """Seal the last event with this sum of all pages' digests, because the pages were rebuilt."""
        self.tail = None
        last = self._db.execute("SELECT number, digest FROM events ORDER BY number DESC LIMIT 1").get
        if last:
            number, digest = last
            seal = seal_digest(digest, total)
            self._db.execute("UPDATE events SET page_sum = ?, seal = ? WHERE number = ?", (total, seal, number))

    def _tail_before(self, number: int) -> Tail:
        if self.tail and self.tail.number == number - 1:  # nobody else has written since
            return self.tail
        last = self._db.execute("SELECT number, digest, page_sum FROM events ORDER BY number DESC LIMIT 1").get
        return Tail(last[0], last[1], last[2] or NOTHING) if last else Tail(0, NOTHING, NOTHING)


def _events(db: apsw.Connection, after: int, only: str = "") -> Iterator[Recorded]:
    from loopty.record.families import decode_event  # reading verbs open saved pages, and need no events

    rows = db.execute(f"SELECT {_EVENT} FROM events WHERE number > ? {only} ORDER BY number", (after,))
    for number, at, kind, body in rows:
        yield Recorded(number, at, decode_event(kind, body))


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def open_url(path: str) -> SqliteLedger:
    """The ledger in the file at this path."""
    return SqliteLedger(Path(path))
