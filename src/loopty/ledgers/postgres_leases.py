"""Leases in PostgreSQL: which processes, on any machine, work on a ledger.

A process renews its lease as long as it lives. One that does not for a minute may be taken for dead by another,
which removes the lease in the same write that closes what it had begun; from then on the database refuses its
writes. Only the server's clock counts, so that clocks of drivers may be wrong; and a process that was merely
stopped, and that nobody missed, goes on.
"""

from __future__ import annotations

import contextlib
import threading

import psycopg

from loopty.domain.errors import Misuse
from loopty.kit.work_end import at_work_end
from loopty.ledgers.postgres_database import LEASE_SECONDS, PostgresDatabase
from loopty.ledgers.postgres_line import PostgresLine
from loopty.record.owners import LocalOwners

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
        """False where somebody has removed the lease: the next write of this process says so."""
        query = (
            "UPDATE leases SET expires = clock_timestamp() + make_interval(secs => %s) "
            "WHERE token = %s RETURNING token"
        )
        parameters = (LEASE_SECONDS, self._token)
        return bool(self._line.repeat(lambda: self._line.connection().execute(query, parameters).fetchall()))
