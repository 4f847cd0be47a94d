"""The ledger in one SQLite file: many processes, one durable commit per decision.

Through apsw, which brings its own SQLite: releases before 3.51.3 can corrupt a write-ahead log that two
connections reset at once, and the one that Python links is often older.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import apsw

from loopty.core import events
from loopty.core.errors import Misuse
from loopty.core.events import Recorded
from loopty.core.history import History
from loopty.core.ids import NodeId

_PATIENCE_MS = 120_000

# The statements that lead from each schema version to the next; the file's user_version counts them.
_MIGRATIONS = (
    """
    CREATE TABLE events (
        number INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        kind TEXT NOT NULL,
        node TEXT,
        body TEXT NOT NULL
    );
    CREATE INDEX events_of_node ON events (node) WHERE node IS NOT NULL;
    CREATE TABLE pages (place INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, body TEXT NOT NULL);
    """,
)


class SqliteLedger:
    """Events and the pages of their fold. Use from one thread; any number of processes may open the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = apsw.Connection(str(path))
            self._db.set_busy_timeout(_PATIENCE_MS)
            self._prepare()
        except (apsw.CantOpenError, apsw.NotADBError, apsw.CorruptError, apsw.ReadOnlyError) as error:
            raise Misuse(
                f"cannot use the ledger {path}: {error}; is it loopty's and yours to write?"
            ) from error

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def turn(self) -> Iterator[SqliteTurn]:
        with self._transaction():
            yield SqliteTurn(self._db)

    def history(self) -> History:
        # One read transaction, so that the number and the pages are of the same moment.
        self._db.execute("BEGIN")
        try:
            number = self._db.execute("SELECT coalesce(max(number), 0) FROM events").get
            pages = self._db.execute("SELECT key, body FROM pages ORDER BY place").fetchall()
        finally:
            self._db.execute("ROLLBACK")
        return History.open(number, pages)

    def read(self, after: int = 0, node: NodeId | None = None) -> Iterator[Recorded]:
        if node is None:
            return _events(self._db, after)
        rows = self._db.execute(
            "SELECT number, at, kind, body FROM events WHERE node = ? AND number > ? ORDER BY number",
            (node, after),
        )
        return (Recorded(number, at, events.decode(kind, body)) for number, at, kind, body in rows)

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
        with self._transaction():
            version = self._version()  # again: another process may have been faster
            if version > len(_MIGRATIONS):
                raise Misuse(f"{self._path} was written by a newer loopty (schema {version}): update loopty")
            for migration in _MIGRATIONS[version:]:
                self._db.execute(migration)
            self._db.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").get)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


class SqliteTurn:
    """A write transaction."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def news(self, after: int) -> Iterator[Recorded]:
        return _events(self._db, after)

    def write(self, recorded: Sequence[Recorded], pages: Mapping[str, str]) -> None:
        self._db.executemany(
            "INSERT INTO events (number, at, kind, node, body) VALUES (?, ?, ?, ?, ?)",
            [
                (item.number, item.at, kind, events.node_of(item.event), body)
                for item in recorded
                for kind, body in (events.encode(item.event),)
            ],
        )
        self._db.executemany(
            "INSERT INTO pages (key, body) VALUES (?, ?) "
            "ON CONFLICT (key) DO UPDATE SET body = excluded.body",
            pages.items(),
        )


def _events(db: apsw.Connection, after: int) -> Iterator[Recorded]:
    rows = db.execute("SELECT number, at, kind, body FROM events WHERE number > ? ORDER BY number", (after,))
    return (Recorded(number, at, events.decode(kind, body)) for number, at, kind, body in rows)
