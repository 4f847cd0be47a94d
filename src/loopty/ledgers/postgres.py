"""The ledger on a PostgreSQL server, for drivers on any number of machines. Needs the extra `postgres`."""

from __future__ import annotations

from loopty.domain.errors import Misuse
from loopty.kit.work_end import at_work_end
from loopty.ledgers.postgres_address import PostgresAddress
from loopty.ledgers.postgres_database import PostgresDatabase
from loopty.ledgers.postgres_leases import PostgresLeases
from loopty.ledgers.row_ledger import RowLedger
from loopty.record.history import FOLD_VERSION, History
from loopty.record.ledger import OnProgress
from loopty.record.owners import LocalOwners, Owners


class PostgresLedger(RowLedger):
    """A ledger whose writers are on many machines: leases say whether they live."""

    def __init__(self, address: PostgresAddress) -> None:
        self._server = PostgresDatabase(address)
        super().__init__(self._server)
        at_work_end(self.close)

    def close(self) -> None:
        self._server.close()

    def is_away(self) -> bool:
        return self._server.line.is_away()

    def wait_until_back(self) -> None:
        self._server.line.wait_until_back()

    def owners(self, local: LocalOwners) -> Owners:
        return PostgresLeases(self._server, local)

    def history(self, on_progress: OnProgress | None = None) -> History:
        if (version := self._fold_version()) > FOLD_VERSION:  # drivers on other machines need those pages
            raise Misuse(
                f"a newer loopty works on this ledger (fold {version}, here {FOLD_VERSION}): update loopty here"
            )
        return super().history(on_progress)


def open_url(url: str) -> PostgresLedger:
    """The ledger behind this URL."""
    return PostgresLedger(PostgresAddress.parse(url))
