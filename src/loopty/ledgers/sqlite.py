"""The ledger in one SQLite file: many processes, one durable commit per decision.

It uses apsw, which brings its own SQLite: releases before 3.51.3 can corrupt a write-ahead log that two
connections reset at once, and the SQLite that Python links is often older.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import apsw

from loopty.domain.errors import Misuse
from loopty.record.event import Recorded
from loopty.record.history import FOLD_VERSION, History

_BUSY_TIMEOUT_MS = 120_000


def _rename_kind(old: str, new: str) -> str:
    return f"UPDATE events SET kind = '{new}' WHERE kind = '{old}';"


def _rename_field(kind: str, old: str, new: str) -> str:
    renamed = f"json_remove(json_set(body, '$.{new}', body -> '$.{old}'), '$.{old}')"
    return f"UPDATE events SET body = {renamed} WHERE kind = '{kind}' AND body -> '$.{old}' IS NOT NULL;"


# The statements that migrate each schema version to the next; the file's user_version counts them.
_MIGRATIONS = (
    """
    CREATE TABLE events (
        number INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        kind TEXT NOT NULL,
        body TEXT NOT NULL
    );
    CREATE TABLE pages (place INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, body TEXT NOT NULL);
    CREATE TABLE fold (version INTEGER NOT NULL);
    INSERT INTO fold VALUES (0);
    """,
    "\n".join(
        (
            _rename_kind("stepped", "rung-changed"),
            _rename_kind("directed", "directive-set"),
            _rename_kind("stalled", "session-stalled"),
            _rename_kind("rebaselined", "run-rebaselined"),
            _rename_kind("reserved", "call-reserved"),
            _rename_kind("settled", "call-settled"),
            _rename_field("run-started", "stated", "criteria_parts"),
            _rename_field("node-added", "asked_after", "known_event"),
            _rename_field("node-added", "left", "remaining_in_reply"),
            _rename_field("node-added", "item", "index_in_reply"),
            _rename_field("proposal-refused", "left", "remaining_in_reply"),
            _rename_field("proposal-refused", "item", "index_in_reply"),
            _rename_field("trial-started", "rival", "incumbent"),
            _rename_field("call-reserved", "worst_tokens", "max_tokens"),
            _rename_field("call-reserved", "worst_money_usd", "max_money_usd"),
        )
    ),
)


class SqliteLedger:
    """Events and the pages of their fold. Use it from one thread; any number of processes may open the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._explain_errors():
            self._db = apsw.Connection(str(path))
            self._db.set_busy_timeout(_BUSY_TIMEOUT_MS)
            self._prepare()

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def write_lock(self) -> Iterator[SqliteWriteLock]:
        with self._explain_errors(), self._transaction("IMMEDIATE"):
            yield SqliteWriteLock(self._db)

    def history(self) -> History:
        with self._explain_errors():
            current = self._db.execute("SELECT version FROM fold").get == FOLD_VERSION
        if not current:
            self._rebuild_pages()
        # One transaction, so that the number and the pages belong to the same moment.
        with self._explain_errors(), self._transaction("DEFERRED"):
            number = self._db.execute("SELECT coalesce(max(number), 0) FROM events").get
            pages = self._db.execute("SELECT key, body FROM pages ORDER BY place").fetchall()
        return History.open(number, pages)

    def read(self, after: int = 0) -> Iterator[Recorded]:
        with self._explain_errors():
            yield from _events(self._db, after)

    def _rebuild_pages(self) -> None:
        """Rebuild the pages from the events: the saved ones come from an older version of the fold."""
        with self.write_lock() as lock:
            history = History()
            for recorded in lock.events_after(0):
                history.apply(recorded)
            self._db.execute("DELETE FROM pages")
            lock.write([], history.take_changed_pages())
            self._db.execute("UPDATE fold SET version = ?", (FOLD_VERSION,))

    def _prepare(self) -> None:
        mode = self._db.execute("PRAGMA journal_mode = WAL").get
        if mode != "wal":
            raise Misuse(
                f"{self._path} is on a file system without shared memory (a network drive?): "
                "keep the repository on a local disk"
            )
        self._db.execute("PRAGMA synchronous = FULL")
        if self._version() == len(_MIGRATIONS):
            return
        with self._transaction("IMMEDIATE"):
            version = self._version()  # again: another process may have been faster
            if version > len(_MIGRATIONS):
                raise Misuse(f"{self._path} was written by a newer loopty (schema {version}): update loopty")
            for migration in _MIGRATIONS[version:]:
                self._db.execute(migration)
            self._db.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").get)

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[None]:
        self._db.execute(f"BEGIN {kind}")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
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
            doubts = "check its permissions, the free space and the health of the disk"
            raise Misuse(f"cannot use the ledger {self._path}: {error} ({doubts})") from error


class SqliteWriteLock:
    """A write transaction."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def events_after(self, number: int) -> Iterator[Recorded]:
        return _events(self._db, number)

    def write(self, events: Sequence[Recorded], pages: Mapping[str, str]) -> None:
        from loopty.record.families import encode_event

        self._db.executemany(
            "INSERT INTO events (number, at, kind, body) VALUES (?, ?, ?, ?)",
            [(item.number, item.at, *encode_event(item.event)) for item in events],
        )
        self._db.executemany(
            "INSERT INTO pages (key, body) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET body = excluded.body",
            pages.items(),
        )


def _events(db: apsw.Connection, after: int) -> Iterator[Recorded]:
    from loopty.record.families import decode_event  # reading verbs open saved pages, and need no events

    rows = db.execute("SELECT number, at, kind, body FROM events WHERE number > ? ORDER BY number", (after,))
    for number, at, kind, body in rows:
        yield Recorded(number, at, decode_event(kind, body))


def open_url(path: str) -> SqliteLedger:
    """The ledger in the file at this path."""
    return SqliteLedger(Path(path))
