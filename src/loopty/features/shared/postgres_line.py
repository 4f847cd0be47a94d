"""One connection to a PostgreSQL server, made again after the server was restarted or has failed over."""

from __future__ import annotations

import contextlib
import math
import os
import random
import re
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar

import psycopg
from psycopg import errors, pq
from psycopg.pq import TransactionStatus

from loopty.domain.errors import Misuse
from loopty.kit.foreign_text import escape_hidden
from loopty.kit.sockets import is_readable
from loopty.ledgers.open_ledger import PostgresAddress

T = TypeVar("T")
PATIENCE_SECONDS = 300.0
"""How long a server may be away before a process gives up: a failover takes seconds to minutes."""
FIRST_PATIENCE_SECONDS = 10.0
"""How long a process that begins waits for a server that does not answer: a restart takes seconds."""
_PASSES = re.compile(
    r"refused|No such file|closed the connection|timeout|timed out|unreachable|read-only|starting up|shutting down"
    r"|accepting connections|in recovery mode"
)
"""Of libpq's own words for a server that may answer soon; a password or a name that is wrong stays wrong."""
_FIRST_ANSWER_SECONDS, _ANSWER_SECONDS = 10.0, 180.0
"""How long a server may take for its first answer, and for another one: waits for its locks end before that."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0
_MOST_REPEATS = 20
_LONGEST_WORDS = 300
_AWAY = (errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow, errors.ReadOnlySqlTransaction)
"""Answers of a server that goes down, comes up, or has become a standby: the next connection may find another."""
# A transaction that its process forgot (a pause, a cut cable) ends before others have waited for the lock in vain.
_SETTINGS = {
    "lock_timeout": "120s",
    "idle_in_transaction_session_timeout": "60s",
    "timezone": "UTC",
}
_CONNECTION = {
    "connect_timeout": 10,
    "application_name": "loopty",
    "target_session_attrs": "read-write",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_NO_CLEARTEXT, _KNOWS_REQUIRE_AUTH = "!password", 160_000
"""Of libpq: without it, whoever answers on the way gets the password by asking for it."""


class _Connection(psycopg.Connection[Any]):
    """A connection that breaks when its server does not answer in time."""

    answer_seconds = _FIRST_ANSWER_SECONDS

    def wait(self, gen: Generator[Any, Any, T], *options: Any, **named_options: Any) -> T:
        return super().wait(self._in_time(gen), *options, **named_options)

    def _in_time(self, steps: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        deadline, ready = time.monotonic() + self.answer_seconds, None
        try:
            while time.monotonic() < deadline:
                ready = yield steps.send(ready)
        except StopIteration as end:
            answer: T = end.value
            return answer
        self.pgconn.finish()
        raise psycopg.OperationalError(f"timeout: the server has not answered for {self.answer_seconds:g} s")


def _connection_options(url: str) -> dict[str, Any]:
    """Set what the URL does not say. It sends a plain password only if TLS is sure, or the URL asks for it."""
    given = psycopg.conninfo.conninfo_to_dict(url)
    options = {name: value for name, value in _CONNECTION.items() if name not in given}
    mode = str(given.get("sslmode") or os.environ.get("PGSSLMODE", ""))
    is_decided = (
        "require_auth" in given or "PGREQUIREAUTH" in os.environ or mode in ("require", "verify-ca", "verify-full")
    )
    if not is_decided and pq.version() >= _KNOWS_REQUIRE_AUTH:
        options["require_auth"] = _NO_CLEARTEXT
    return options


def is_lost(error: psycopg.Error, connection: psycopg.Connection[Any] | None) -> bool:
    """Say whether the connection broke, so that the same might succeed with another one."""
    # After the server's answer psycopg may fail once more: several statements at once cannot be ended any more.
    if isinstance(error, _AWAY) or isinstance(error.__context__, _AWAY):
        return True
    # Any error that closed the connection: the server's own time limits count as internal errors.
    return connection is None or bool(connection.closed)


def _first_line(error: Exception) -> str:
    """Return the first line of the server's words, or libpq's: others may speak on that port."""
    return escape_hidden(next(iter(str(error).strip().splitlines()), type(error).__name__)[:_LONGEST_WORDS])


@contextlib.contextmanager
def sound_answers() -> Iterator[None]:
    """Raise Misuse where an answer has no row, another type or no text: perhaps no ledger is there."""
    try:
        yield
    except (LookupError, TypeError, ValueError) as error:
        raise Misuse(
            "the server of the ledger gives answers that are none of a ledger in PostgreSQL "
            f"({type(error).__name__}): check its address"
        ) from error


def _steady_seconds() -> float:
    """Read a clock that nobody sets, and that runs while the machine sleeps, if there is one."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class PostgresLine:
    """A connection that outlasts its server. Use it from one thread."""

    def __init__(self, address: PostgresAddress, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.address = address
        self._patience = patience_seconds
        self._connection: psycopg.Connection[Any] | None = None
        self._was_open = False
        self._clock_offset = 0.0
        """What the clock of this machine lacks to that of the server."""

    def now(self) -> float:
        """Compute the server's time from its clock at the connection's start, and how long ago that was."""
        self.connection()
        return self._clock_offset + _steady_seconds()

    def connection(self) -> psycopg.Connection[Any]:
        """Return the connection. The first is tried for seconds, a later one for the patience. Raises Misuse."""
        if self._connection is None or self._connection.closed:
            self._connection = self._open_patiently() if self._was_open else self._open_first()
            self._was_open = True
        return self._connection

    def is_away(self) -> bool:
        """Say whether the server has hung up: between two questions it has nothing else to say."""
        connection = self._connection
        if connection is None or connection.closed:
            return self._was_open
        if connection.info.transaction_status is not TransactionStatus.IDLE:
            return False
        return is_readable(connection.fileno(), 0)

    def wait_until_back(self) -> None:
        """Wait until a server answers that can be written; with a connection of its own, so in any thread."""
        probe = PostgresLine(self.address, self._patience)
        probe._was_open = True
        probe.connection()
        probe.drop()

    def repeat(self, work: Callable[[], T]) -> T:
        """Do this work, again where a connection breaks: then it must have changed nothing."""
        deadline = time.monotonic() + max(self._patience, FIRST_PATIENCE_SECONDS)
        for _ in range(_MOST_REPEATS):
            try:
                return work()
            except psycopg.Error as error:
                if not is_lost(error, self._connection):
                    raise self.explanation(error) from error
                self.drop()
                last = error
                if time.monotonic() > deadline:
                    break
        raise self.explanation(last) from last

    def drop(self) -> None:
        """Close the connection; the next use makes another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()

    def explanation(self, error: Exception) -> Misuse:
        """Explain the error in one line with the remedy. It never holds a password."""
        what = _first_line(error)
        if _NO_CLEARTEXT in what:
            return Misuse(
                f"the server of the ledger {self.address.shown} asks for the password as it is, and the "
                "connection need not be encrypted: nothing was sent. Add sslmode=verify-full to the URL (or "
                "sslmode=require), or require_auth=password where nobody else is on the network"
            )
        return Misuse(
            f"cannot use the ledger {self.address.shown}: {what} (check that the server runs, the name of the "
            "database and your rights in it; a password comes from PGPASSWORD or ~/.pgpass)"
        )

    def _open_first(self) -> psycopg.Connection[Any]:
        try:
            return self._open_within(FIRST_PATIENCE_SECONDS, lambda error: bool(_PASSES.search(str(error))))
        except psycopg.Error as error:
            if not _PASSES.search(str(error)):
                raise self.explanation(error) from error
            raise Misuse(
                f"the ledger {self.address.shown} does not answer, also not after {FIRST_PATIENCE_SECONDS:g} s "
                f"({_first_line(error)}): check that the server runs and can be reached from here, then try "
                f"again. Everything recorded is safe; a driver that runs waits {PATIENCE_SECONDS / 60:g} minutes "
                "for the server, and its trials go on"
            ) from error

    def _open_patiently(self) -> psycopg.Connection[Any]:
        try:
            return self._open_within(self._patience, lambda _: True)
        except psycopg.Error as error:
            self._was_open = False  # who gave up once does not wait as long for each thing that is left
            raise Misuse(
                f"the ledger {self.address.shown} has been away for {self._patience:g} s "
                f"({_first_line(error)}): everything recorded is safe; when "
                "its server is back, the same command goes on"
            ) from error

    def _open_within(self, seconds: float, may_pass: Callable[[psycopg.Error], bool]) -> psycopg.Connection[Any]:
        """Open it, again and again after an error that may pass. Raises the last one."""
        deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE
        while True:
            try:
                return self._open()
            except psycopg.Error as error:
                if time.monotonic() + pause > deadline or not may_pass(error):
                    raise
            time.sleep(pause * random.uniform(0.5, 1.0))  # drivers do not come back all at once
            pause = min(2 * pause, _LONGEST_PAUSE)

    @sound_answers()
    def _open(self) -> psycopg.Connection[Any]:
        options = _connection_options(self.address.url)
        connection = _Connection.connect(self.address.url, autocommit=True, **options)
        try:
            settings = {"search_path": f'"{self.address.ledger}"', **_SETTINGS}
            calls = ", ".join("set_config(%s, %s, false)" for _ in settings)
            query = f"SELECT extract(epoch FROM clock_timestamp())::float8, {calls}"
            before = _steady_seconds()
            found = connection.execute(query, [part for pair in settings.items() for part in pair]).fetchall()
            offset = found[0][0] - (before + _steady_seconds()) / 2
            if not math.isfinite(offset):
                raise ValueError("a clock without a time")
            self._clock_offset = offset
            connection.answer_seconds = _ANSWER_SECONDS
        except BaseException:
            connection.close()
            raise
        return connection
