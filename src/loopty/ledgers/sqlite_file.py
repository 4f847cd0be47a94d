"""The file of a ledger: how SQLite opens it, also where nothing can be written, and what if it is gone."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from loopty.domain.errors import Misuse
from loopty.kit.quoted_path import quote_path
from loopty.kit.safe_folder import SafeFolder
from loopty.kit.temporary_folder import make_temporary_folder
from loopty.kit.work_end import at_work_end

BUSY_TIMEOUT_MS = 120_000
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
        """A connection to the file, which is created if there is none."""
        at_work_end(_close_all)
        with self.explain_errors():
            db = self._open_for_reading() if self.reads_only else self._open()
            self._identity = self._identity_now()
        return db

    @property
    def is_gone(self) -> bool:
        """Whether it was removed or replaced since it was opened."""
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
            target = apsw.Connection(str(self._folder.make().path_for_programs() / temporary))
            with target.backup("main", db, "main") as backup:
                backup.step()
            target.close()
            self._folder.rename(temporary, name)
            db.close()
            self.path = self.path.with_name(name)
            self._path_text = str(self.path)
        return self.open()

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Turn SQLite's error for a damaged file or a full disk into one line with the remedy."""
        try:
            yield
        except apsw.Error as error:
            raise self.explanation(error) from error

    def explanation(self, error: apsw.Error) -> Misuse:
        """SQLite's error in one line with the remedy."""
        if isinstance(error, apsw.FullError):
            return Misuse(f"the disk is full ({error}): free some space; everything recorded is safe")
        if isinstance(error, apsw.ReadOnlyError) or not os.access(self.path.parent, os.W_OK):
            return Misuse(f"the ledger {self.path} has become read-only: make it writable")
        doubts = "check its permissions, the free space and the health of the disk"
        return Misuse(f"cannot use the ledger {self.path}: {error} ({doubts})")

    def _open(self) -> apsw.Connection:
        # SQLite opens by path. The way to the folder was checked by handle when the state was opened, and only
        # this user can change it; here the files themselves are checked, and SQLite follows no link either.
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
        """Which file is at the path; None if there is none."""
        try:
            status = os.lstat(self._path_text)
        except OSError:
            return None
        return status.st_dev, status.st_ino


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
