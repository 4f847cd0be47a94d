"""The ledger in one SQLite file, for the processes of one machine."""

from __future__ import annotations

from pathlib import Path

from loopty.ledgers.row_ledger import RowLedger
from loopty.ledgers.sqlite_database import SqliteDatabase
from loopty.record.owners import LocalOwners, Owners


class SqliteLedger(RowLedger):
    """A ledger whose writers are processes of this machine: lock files say whether they live."""

    def __init__(self, path: Path) -> None:
        self._file_database = SqliteDatabase(path)
        super().__init__(self._file_database)

    def close(self) -> None:
        self._file_database.close()

    def owners(self, local: LocalOwners) -> Owners:
        return local


def open_url(path: str) -> SqliteLedger:
    """The ledger in the file at this path."""
    return SqliteLedger(Path(path))
