"""The ledger on a PostgreSQL server, for drivers on any number of machines. Needs the extra `postgres`."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

from loopty.domain.errors import LostLease, Misuse
from loopty.domain.trial import Pool
from loopty.features.shared.postgres_line import PATIENCE_SECONDS, PostgresLine, is_lost, sound_answers
from loopty.kit.process import at_work_end
from loopty.ledgers.open_ledger import PostgresAddress
from loopty.record.database import LedgerBusy
from loopty.record.history import FOLD_VERSION, History
from loopty.record.ledger import Ledger, LocalOwners, OnProgress, Owners, WriteLost

CALL_EVENTS = (
    "kind IN ('call-reserved', 'call-settled', 'proposal-refused') "
    "OR (kind = 'node-added' AND position('\"calls\":' IN body) > 0)"
)
"""Which events may be about model calls. Not by JSON operators: PostgreSQL's refuse an escaped zero byte."""

VERSION = 2
"""What the table `layout` says. No release wrote another one, so there is nothing to migrate from."""

LAYOUT = f"""
CREATE TABLE layout (version integer NOT NULL);
INSERT INTO layout VALUES ({VERSION});
CREATE TABLE events (
    number bigint PRIMARY KEY,
    at double precision NOT NULL,
    kind text NOT NULL,
    body text NOT NULL,
    digest bytea NOT NULL,
    row_sum bytea,
    seal bytea
);
CREATE TABLE runs (
    place bigint PRIMARY KEY,
    run bigint NOT NULL,
    part text NOT NULL,
    entry text NOT NULL,
    body text NOT NULL,
    digest bytea NOT NULL
);
CREATE TABLE nodes (
    handle bigint PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    run bigint NOT NULL,
    pool text NOT NULL,
    place_in_run bigint NOT NULL,
    place_in_pool bigint NOT NULL,
    parent bigint NOT NULL,
    added_at double precision NOT NULL,
    waits bigint NOT NULL,
    identity text,
    verdict text,
    ending text,
    basis text NOT NULL,
    score double precision,
    error_rate double precision,
    repeats bigint NOT NULL,
    judged bigint NOT NULL,
    is_plain bigint NOT NULL,
    seconds double precision NOT NULL,
    label text NOT NULL,
    body text NOT NULL,
    facts_digest bytea NOT NULL,
    digest bytea NOT NULL
) WITH (fillfactor = 80);
CREATE TABLE fold (version integer NOT NULL);
INSERT INTO fold VALUES ({FOLD_VERSION});
CREATE TABLE leases (
    token bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner text UNIQUE,
    expires timestamptz NOT NULL,
    writes bigint NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX nodes_by_pool ON nodes (run, pool, place_in_pool);
CREATE INDEX nodes_by_parent ON nodes (run, parent, pool) INCLUDE (handle);
CREATE INDEX nodes_by_identity ON nodes (identity) WHERE identity IS NOT NULL;
CREATE INDEX waiting_nodes ON nodes (run, pool, handle) WHERE waits = 1;
CREATE INDEX call_events ON events (number) WHERE {CALL_EVENTS};
"""


_NAME = r"(?:[a-z_]+|count\(\*\))"
_SELECTED = re.compile(rf"SELECT ({_NAME}(?:, {_NAME})*) FROM (?:events|runs|nodes|fold)")
"""Columns only: what is computed is checked where it is used."""
_WHOLE = (
    "number, place, run, handle, place_in_run, place_in_pool, parent, waits, repeats, judged, is_plain, version, "
    "count(*)"
)
_TYPES: dict[str, type] = {
    **dict.fromkeys(_WHOLE.split(", "), int),
    **dict.fromkeys(("kind", "part", "entry", "body", "id", "pool", "identity", "basis", "label"), str),
    **dict.fromkeys(("verdict", "ending"), str),
    **dict.fromkeys(("digest", "facts_digest", "row_sum", "seal"), bytes),
    **dict.fromkeys(("at", "added_at", "score", "error_rate", "seconds"), float),
}
_MAY_BE_NULL = {"row_sum", "seal", "identity", "verdict", "ending", "score", "error_rate"}
_ID = re.compile(r"[1-9][0-9]*(\.[1-9][0-9]*)*")
"""Of a node, whose folder it names."""
_POOLS = {pool.value for pool in Pool}


def refuse_misfits(query: str, rows: Sequence[Sequence[Any]]) -> None:
    """Refuse a misfit: raise ValueError if a column is missing, surplus, or has a value of another kind."""
    names = _columns(query)
    if not names or not rows:
        return
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        is_sound = set(map(type, values)) <= {_TYPES[name], *((type(None),) if name in _MAY_BE_NULL else ())}
        if is_sound and name == "id":
            is_sound = all(map(_ID.fullmatch, values))
        if not is_sound or (name == "pool" and not _POOLS.issuperset(values)):
            raise ValueError(name)


@cache
def _columns(query: str) -> tuple[str, ...]:
    found = _SELECTED.match(query)
    return tuple(found[1].split(", ")) if found else ()


# Every writer has a row in `leases`, whose token is larger than all before it. A write begins by locking the one
# row of `fold`, so that writers follow each other, and counts itself in the writer's row, in the same transaction.
# So a writer whose row another one has removed writes nothing, and one that lost the answer to its COMMIT finds
# out from the count whether it happened.


T = TypeVar("T")
LEASE_SECONDS = 60.0
# One lock for all writers: decisions depend on the whole history, so of two optimistic transactions at once
# one would nearly always have to decide again.
_LOCK = "SELECT version FROM fold FOR UPDATE"
_SHORT_WAIT, _LONG_WAIT = "1s", "120s"


@cache
def _text(query: str) -> Any:
    """Return the query as psycopg wants it."""
    return query.replace("?", "%s")


class PostgresDatabase:
    """The schema of one ledger on one server."""

    reads_only = False
    call_events = CALL_EVENTS

    def __init__(self, address: PostgresAddress, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.line = PostgresLine(address, patience_seconds)
        self._transaction: psycopg.Connection[Any] | None = None
        """The connection of the transaction that is open, which must not be exchanged."""
        self.is_writing = False
        self._has_changes = False
        """Whether the write that is open has anything to commit: many decisions are to do nothing."""
        self.owner: str | None = None
        self.token: int | None = None
        self._writes = 0
        try:
            self.line.repeat(self._prepare)
        except BaseException:
            self.line.drop()
            raise

    def close(self) -> None:
        """Give up the lease, and the connection."""
        try:
            if self.token is not None:
                self._remove_lease(self.token)
        except (psycopg.Error, Misuse):
            pass  # it expires
        self.token = None
        self.line.drop()

    def now(self) -> float:
        return self.line.now()

    @sound_answers()
    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[Any]:
        if self._transaction is not None:
            found = self._transaction.execute(_text(query), parameters).fetchall()
        else:
            found = self.line.repeat(lambda: self.line.connection().execute(_text(query), parameters).fetchall())
        refuse_misfits(query, found)
        return found

    def row(self, query: str, parameters: Sequence[Any] = ()) -> Any:
        rows = self.rows(query, parameters)
        return rows[0] if rows else None

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        self._has_changes = True
        self._written().execute(_text(statement), parameters)

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._has_changes = True
        with self._written().cursor() as cursor:
            cursor.executemany(_text(statement), rows)

    def read(self, question: Callable[[], T]) -> T:
        if self._transaction is not None:
            return question()

        def answer() -> T:
            connection = self.line.connection()
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._transaction = connection
            try:
                return question()
            finally:
                self._end_transaction()

        return self.line.repeat(answer)

    @contextmanager
    def write(self) -> Iterator[None]:
        self.line.repeat(self._begin_write)
        try:
            yield
            if self._has_changes:
                self._commit()
        except psycopg.Error as error:
            if not is_lost(error, self._transaction):
                raise self.line.explanation(error) from error
            self._transaction = None
            self.line.drop()
            raise WriteLost(f"the connection to {self.line.address.shown} broke: nothing was written") from error
        finally:
            self._end_transaction()

    @contextmanager
    def short_waits(self) -> Iterator[None]:
        self._limit_waits(_SHORT_WAIT)
        try:
            yield
        finally:
            self._limit_waits(_LONG_WAIT)

    def name_writer(self, owner: str) -> None:
        """Let writes count as those of this owner from here on, until somebody excludes it."""
        unnamed, self.owner = self.token, owner
        self.line.repeat(self._add_lease)
        if unnamed is not None:
            self.line.repeat(lambda: self._remove_lease(unnamed))

    @sound_answers()
    def _add_lease(self) -> None:
        connection = self.line.connection()
        connection.execute("DELETE FROM leases WHERE expires < clock_timestamp() - interval '1 day'")
        query = (
            "INSERT INTO leases (owner, expires) VALUES (%s, clock_timestamp() + make_interval(secs => %s)) "
            "ON CONFLICT (owner) DO UPDATE SET expires = excluded.expires RETURNING token, writes"
        )
        self.token, self._writes = connection.execute(query, (self.owner, LEASE_SECONDS)).fetchall()[0]

    def _remove_lease(self, token: int) -> None:
        self.line.connection().execute("DELETE FROM leases WHERE token = %s", (token,))

    @sound_answers()
    def _begin_write(self) -> None:
        connection = self.line.connection()
        if self.token is None:
            self._add_lease()
        connection.execute("BEGIN")
        self._transaction, self._has_changes = connection, False
        try:
            connection.execute(_LOCK)
            self._count_write(connection)
            self.is_writing = True
        except errors.LockNotAvailable as error:
            self._end_transaction()
            raise LedgerBusy(str(self.line.explanation(error))) from error
        except BaseException:
            self._end_transaction()
            raise

    def _count_write(self, connection: psycopg.Connection[Any]) -> None:
        query = (
            "UPDATE leases SET writes = writes + 1, expires = clock_timestamp() + make_interval(secs => %s) "
            "WHERE token = %s RETURNING writes"
        )
        found = connection.execute(query, (LEASE_SECONDS, self.token)).fetchall()
        if not found:
            raise self._refusal()
        if found[0][0] <= self._writes:
            raise Misuse(
                f"the server of {self.line.address.shown} went back to an earlier state, without the last writes "
                "of this process (a failover to a replica that was behind?): nothing more was written; "
                "start again, and what was lost is measured again"
            )
        self._writes = found[0][0] - 1  # a write that a signal broke off may have happened

    def _refusal(self) -> Misuse:
        if self.owner is None:
            self.token = None  # the next write gets another one
            return Misuse("the ledger has not heard of this process for a day: start again")
        return LostLease(
            f"this process ({self.owner.rpartition(':')[0]}) was taken for dead, because it did not renew its "
            f"lease for {LEASE_SECONDS:g} s (it was stopped, or cut off from the server), and another one closed "
            "what it had begun: nothing more of it is recorded. `loopty status` says who drives the run now; "
            "`loopty run` goes on when nobody does"
        )

    @sound_answers()
    def _commit(self) -> None:
        connection = self._written()
        try:
            answer = connection.execute("COMMIT").statusmessage
        except psycopg.Error as error:
            if not is_lost(error, connection) or not self._was_committed():
                raise
        else:
            if answer != "COMMIT":
                raise Misuse(f"the server undid a write to {self.line.address.shown}: {answer}")
        self._writes += 1

    def _was_committed(self) -> bool:
        """Say whether a COMMIT without an answer took place: when its transaction is over, which the lock says."""
        self._transaction = None
        self.line.drop()

        def ask() -> list[Any]:
            connection = self.line.connection()
            connection.execute("BEGIN")
            try:
                connection.execute(_LOCK)
                return connection.execute("SELECT writes FROM leases WHERE token = %s", (self.token,)).fetchall()
            finally:
                if not connection.closed:
                    connection.execute("ROLLBACK")

        if found := self.line.repeat(ask):
            return bool(found[0][0] > self._writes)
        raise self._refusal()

    def _end_transaction(self) -> None:
        connection, self._transaction = self._transaction, None
        self.is_writing = False
        if connection is None or connection.closed:
            return
        try:
            if connection.info.transaction_status is not TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
        except psycopg.Error:
            self.line.drop()

    def _written(self) -> psycopg.Connection[Any]:
        assert self._transaction is not None, "a statement that changes something needs the write lock"
        return self._transaction

    def _limit_waits(self, limit: str) -> None:
        query = "SELECT set_config('lock_timeout', %s, false)"
        self.line.repeat(lambda: self.line.connection().execute(query, (limit,)))

    @sound_answers()
    def _prepare(self) -> None:
        """Make the tables, where there are none yet. Raises Misuse where another loopty made them differently."""
        connection, ledger = self.line.connection(), self.line.address.ledger
        if self._layout_version(connection) == VERSION:
            return
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"loopty {ledger}",))
            version = self._layout_version(connection)  # again: another process may have been faster
            if version not in (0, VERSION):
                age, remedy = ("newer", "update loopty") if version > VERSION else ("older", "take another one")
                raise Misuse(f"{self.line.address.shown} is of {age} loopty (layout {version}): {remedy}")
            if not version:
                connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{ledger}"')
                connection.execute(LAYOUT)

    def _layout_version(self, connection: psycopg.Connection[Any]) -> int:
        name = f'"{self.line.address.ledger}".layout'
        if connection.execute("SELECT to_regclass(%s)", (name,)).fetchall()[0][0] is None:
            return 0
        return int(connection.execute("SELECT version FROM layout").fetchall()[0][0])


# A process renews its lease as long as it lives. One that does not for a minute may be taken for dead by another,
# which removes the lease in the same write that closes what it had begun; from then on the database refuses its
# writes. Only the server's clock counts, so that clocks of drivers may be wrong; and a process that was merely
# stopped, and that nobody missed, goes on.


_RENEWAL_SECONDS = LEASE_SECONDS / 4
_LONGEST_END_SECONDS = 2.0
"""A server that is away must not hold up the end of the work."""


class PostgresLeases:
    """The owners of one ledger."""

    def __init__(
        self, database: PostgresDatabase, local: LocalOwners, renewal_seconds: float = _RENEWAL_SECONDS
    ) -> None:
        self._database = database
        self._local = local
        self._renewal_seconds = renewal_seconds

    def claim(self) -> str:
        """Take a lease, and renew it in a thread of its own until the work ends."""
        owner = self._local.claim()
        self._database.name_writer(owner)
        LeaseRenewal(self._database, self._renewal_seconds).start()
        return owner

    def is_alive(self, owner: str) -> bool:
        query = "SELECT 1 FROM leases WHERE owner = ? AND expires >= clock_timestamp()"
        return not self._local.has_died(owner) and bool(self._database.rows(query, (owner,)))

    def exclude(self, owner: str) -> bool:
        # The lock file of a process of this machine is surer than any time.
        due = "" if self._local.has_died(owner) else "AND expires < clock_timestamp()"
        self._database.execute(f"DELETE FROM leases WHERE owner = ? {due}", (owner,))
        return not self._database.rows("SELECT 1 FROM leases WHERE owner = ?", (owner,))


class LeaseRenewal(threading.Thread):
    """Renews a lease, with a connection of its own: the other one may be in the middle of a write."""

    def __init__(self, database: PostgresDatabase, seconds: float) -> None:
        super().__init__(name="lease renewal", daemon=True)
        self._line = PostgresLine(database.line.address, 0.0)
        self._token = database.token
        self._seconds = seconds
        self._ended = threading.Event()

    def start(self) -> None:
        at_work_end(self.stop)
        super().start()

    def stop(self) -> None:
        self._ended.set()
        self.join(_LONGEST_END_SECONDS)

    def run(self) -> None:
        while not self._ended.wait(self._seconds):
            with contextlib.suppress(psycopg.Error, Misuse):  # the server is away: the next time, perhaps
                if not self._renew():
                    break
        self._line.drop()

    def _renew(self) -> bool:
        """Renew the lease; False if somebody has removed it: the next write of this process says so."""
        query = (
            "UPDATE leases SET expires = clock_timestamp() + make_interval(secs => %s) "
            "WHERE token = %s RETURNING token"
        )
        parameters = (LEASE_SECONDS, self._token)
        return bool(self._line.repeat(lambda: self._line.connection().execute(query, parameters).fetchall()))


class PostgresLedger(Ledger):
    """A ledger whose writers are on many machines: leases say whether they live."""

    def __init__(self, address: PostgresAddress) -> None:
        self._server = PostgresDatabase(address)
        super().__init__(self._server)
        at_work_end(self.close)

    def is_away(self) -> bool:
        return self._server.line.is_away()

    def wait_until_back(self) -> None:
        self._server.line.wait_until_back()

    def owners(self, local: LocalOwners) -> Owners:
        return PostgresLeases(self._server, local)

    def history(self, on_progress: OnProgress | None = None) -> History:
        if (version := self._fold_version()) > FOLD_VERSION:  # drivers on other machines need those tables
            raise Misuse(
                f"a newer loopty works on this ledger (fold {version}, here {FOLD_VERSION}): update loopty here"
            )
        return super().history(on_progress)


def open_url(url: str) -> PostgresLedger:
    """Open the ledger behind this URL."""
    return PostgresLedger(PostgresAddress.parse(url))
