"""Folders of nodes in one file, compressed: most trials are discarded, and hardly anybody opens what they left.

On ext4 a small file takes 4 KB and an inode, and a folder takes as much; a node's folder had eight of them. Here
it is a row of a few hundred bytes. SQLite lets any number of processes add rows, and a kill at any instant leaves
whole ones.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import zlib
from collections.abc import Iterator, Mapping

import apsw

from loopty.kit.deflate import deflate
from loopty.kit.quoted_path import quote_path
from loopty.kit.safe_folder import SafeFile, SafeFolder, UnsafePath

_LARGEST = 64 << 20
"""A larger folder stays as it is."""
_BUSY_TIMEOUT_MS = 10_000
_LOG_PAGES = 128
"""How long the log beside the file gets that a process leaves which ends without closing it."""
_CACHE_KB = 256
"""Hardly any row is read again."""
_SCHEMA = "CREATE TABLE IF NOT EXISTS folders (name TEXT NOT NULL UNIQUE, files BLOB NOT NULL)"


class FoldedFolders:
    """The folders in one file, by name. For any number of threads and processes."""

    def __init__(self, file: SafeFile) -> None:
        self._file = file
        self._db: apsw.Connection | None = None
        self._has_table = False
        self._lock = threading.Lock()

    def fold(self, folder: SafeFolder, last_files: Mapping[str, bytes]) -> bool:
        """Put the folder and these files into the file, and remove it; false where that fails: then it stays."""
        try:
            files = None if folder.is_absent() else dict(files_below(folder))
        except FileNotFoundError:
            files = None
        except OSError:
            return False
        if files is None:
            return self.add(folder.name, last_files) if last_files else True
        if not self.add(folder.name, {**files, **last_files}):
            return False
        folder.remove_all()
        return True

    def add(self, name: str, files: Mapping[str, bytes]) -> bool:
        """Add files to a folder, in place of those of the same names; false where they cannot be written."""
        if sum(map(len, files.values())) > _LARGEST:
            return False
        try:
            with self._connection(make=True) as db:
                if self._has_table and _insert_row(db, name, encode_files(files)):
                    return True
                with _write_transaction(db):
                    if not self._has_table:
                        db.execute(_SCHEMA)
                    row = encode_files({**_row(db, name), **files})
                    db.execute("INSERT OR REPLACE INTO folders (name, files) VALUES (?, ?)", (name, row))
                self._has_table = True
        except (OSError, apsw.Error, ValueError, zlib.error):
            return False
        return True

    def files(self, name: str) -> Mapping[str, bytes]:
        """The files of a folder by their paths in it; none where it is not here."""
        try:
            with self._connection() as db:
                return _row(db, name)
        except (OSError, apsw.Error, ValueError, zlib.error):
            return {}

    def size(self, name: str) -> int:
        """What the folder takes on disk, in bytes; 0 where it is not here."""
        try:
            with self._connection() as db:
                return db.execute("SELECT length(files) FROM folders WHERE name = ?", (name,)).get or 0
        except (OSError, apsw.Error):
            return 0

    def remove(self, name: str) -> None:
        """Remove a folder, if it is here. Its room is used again."""
        with contextlib.suppress(FileNotFoundError, apsw.Error), self._connection() as db:
            db.execute("DELETE FROM folders WHERE name = ?", (name,))

    def close(self) -> None:
        """Put everything into the one file; the next use opens it again."""
        with self._lock, contextlib.suppress(apsw.Error):
            if self._db is not None:
                db, self._db, self._has_table = self._db, None, False
                db.close()

    @contextlib.contextmanager
    def _connection(self, make: bool = False) -> Iterator[apsw.Connection]:
        """Raises FileNotFoundError where there is no file, unless `make`."""
        with self._lock:
            if self._db is None:
                if not (make or self._file.exists()):
                    raise FileNotFoundError(self._file.shown_path)
                self._db = self._open(make)
            yield self._db

    def _open(self, make: bool) -> apsw.Connection:
        # SQLite opens by path. Only this user can change the way to the folder; the files themselves are checked
        # here, and SQLite follows no link either.
        for suffix in ("", "-wal", "-shm", "-journal"):
            self._file.folder.file(self._file.name + suffix).exists()
        path = self._file.path_for_programs()
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_NOFOLLOW
        if not make and not os.access(path.parent, os.W_OK):
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            return apsw.Connection(f"file:{quote_path(str(path))}?immutable=1", flags)
        db = apsw.Connection(str(path), flags)
        db.set_busy_timeout(_BUSY_TIMEOUT_MS)
        if make:
            with contextlib.suppress(apsw.BusyError):  # another process does the same just now
                db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        db.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
        return db


@contextlib.contextmanager
def _write_transaction(db: apsw.Connection) -> Iterator[None]:
    """Wait for other processes first: whoever has read already cannot wait any more."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def encode_files(files: Mapping[str, bytes]) -> bytes:
    """The files as one compressed text: a line with their names and sizes, then one after the other."""
    head = json.dumps({name: len(content) for name, content in files.items()}).encode()
    return deflate(b"\n".join((head, b"".join(files.values()))), 6)


def decode_files(raw: bytes) -> dict[str, bytes]:
    """The files of `encode_files`."""
    head, _, rest = zlib.decompress(raw).partition(b"\n")
    files, start = {}, 0
    for name, size in json.loads(head).items():
        if size < 0:
            raise ValueError("a file has less than nothing")
        files[name] = rest[start : start + size]
        start += size
    return files


def _insert_row(db: apsw.Connection, name: str, row: bytes) -> bool:
    """Write the row if there is none of this name; returns whether it was written."""
    db.execute("INSERT OR IGNORE INTO folders (name, files) VALUES (?, ?)", (name, row))
    return db.changes() > 0


def _row(db: apsw.Connection, name: str) -> dict[str, bytes]:
    raw = db.execute("SELECT files FROM folders WHERE name = ?", (name,)).get
    return decode_files(raw) if raw else {}


def files_below(folder: SafeFolder, prefix: str = "", limit_bytes: int = _LARGEST) -> Iterator[tuple[str, bytes]]:
    """The regular files below a folder by path; nothing else is in it. Raises OSError where it is too large."""
    left = limit_bytes
    with folder.handle() as top:
        for name in sorted(os.listdir(top)):  # noqa: PTH208
            try:
                descriptor = folder.file(name).open_in(top, os.O_RDONLY)
            except IsADirectoryError:
                yield from files_below(folder.below(name), f"{prefix}{name}/", limit_bytes)
                continue
            except UnsafePath:
                continue
            with os.fdopen(descriptor, "rb") as file:
                left -= os.fstat(descriptor).st_size
                if left < 0:
                    raise OSError(f"{folder.shown_path} is too large to be folded")
                # Not up to a limit: Python would ask for as much memory, and give back what it did not need.
                content = file.read()
            yield f"{prefix}{name}", content
