"""What is kept of nodes: a folder of plain files, or for a discarded node a row of one compressed file.

Readers need not know which. People get plain files in either case, in the working tree: of kept nodes always, of
others when they look.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath

import apsw

from loopty.domain.ids import NodeId
from loopty.kit.contents import deflate
from loopty.kit.paths import quote_path
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFile, SafeFolder, UnsafePath
from loopty.workspaces.rebuildable_folders import bytes_below
from loopty.workspaces.state_folder import StateFolder

CHANGE = "change.diff"
"""The file with the node's change to its parent."""
_NEW_DESCRIPTIONS = 64
_LONGEST_DESCRIPTION = 256 << 10
_LARGEST_FOLDED = 64 << 10
"""Of a file that comes from the shared store; a larger one stays as it is."""
_LARGEST_SENT = 512 << 20


class NodeFolder(Record):
    """The files that are kept of one node."""

    plain: SafeFolder
    folded: Mapping[str, bytes]

    def read(self, name: str, limit_bytes: int | None = None, tail: bool = False) -> bytes:
        """Read a file, or at most so many bytes of its head or its tail. Raises OSError if there is none."""
        *above, last = PurePosixPath(name).parts
        try:
            return self.plain.below(*above).file(last).read(limit_bytes, tail)
        except FileNotFoundError:
            if name not in self.folded:
                raise
        content = self.folded[name]
        if limit_bytes is None:
            return content
        return content[max(0, len(content) - limit_bytes) :] if tail else content[:limit_bytes]

    def names_below(self, folder: str) -> list[str]:
        """List the names in one of its folders, in order; none if it is missing."""
        inside = (name.removeprefix(f"{folder}/") for name in self.folded if name.startswith(f"{folder}/"))
        return sorted({*self.plain.below(folder).names(), *inside})


FetchFolder = Callable[[NodeId], Iterable[tuple[str, bytes]]]
"""The files of a node that another clone has put into the shared store; none where there are none."""


class NodeFolders:
    """The folders of all nodes."""

    def __init__(self, state: StateFolder, fetch: FetchFolder | None = None) -> None:
        self._state = state
        self._folded = FoldedFolders(state.node_archive)
        self._new_descriptions: dict[NodeId, Mapping[str, bytes]] = {}
        """Of the newest nodes of this process: the next prompt shows their changes."""
        self._fetch = fetch

    def close(self) -> None:
        """Leave no open file; the next use opens it again."""
        self._folded.close()

    def open(self, node: NodeId) -> NodeFolder:
        plain, folded = self._state.node_folder(node), self._folded.files(node.name)
        if self._fetch and not folded and not plain.exists():
            folded = self._keep_fetched(node, self._fetch(node))
        return NodeFolder(plain, folded)

    def _keep_fetched(self, node: NodeId, files: Iterable[tuple[str, bytes]]) -> Mapping[str, bytes]:
        """Keep what came from the store: large files as they are, so that they need not be in memory together."""
        folded, plain = {}, self._state.node_folder(node)
        for path, content in files:
            if len(content) > _LARGEST_FOLDED:
                plain.file_at(path).write(content)
            else:
                folded[path] = content
        if folded and not self._folded.add(node.name, folded):
            for path, content in folded.items():
                plain.file_at(path).write(content)
        return folded

    def files(self, node: NodeId) -> Iterator[tuple[str, bytes]]:
        """Yield all that is kept of the node here, by path."""
        plain, folded = self._state.node_folder(node), self._folded.files(node.name)
        seen = set()
        with contextlib.suppress(FileNotFoundError):
            for path, content in files_below(plain, limit_bytes=_LARGEST_SENT):
                seen.add(path)
                yield path, content
        yield from ((path, content) for path, content in folded.items() if path not in seen)

    def new_description(self, node: NodeId) -> Mapping[str, bytes]:
        """Return the files that describe the node, if this process has made them a short while ago; else none."""
        return self._new_descriptions.get(node, {})

    def remember_description(self, node: NodeId, files: Mapping[str, bytes]) -> None:
        """Keep the files that describe the node in memory for a while, unless they are long."""
        if sum(map(len, files.values())) <= _LONGEST_DESCRIPTION:
            self._new_descriptions[node] = files
            if len(self._new_descriptions) > _NEW_DESCRIPTIONS:
                self._new_descriptions.pop(next(iter(self._new_descriptions)), None)

    def add(self, node: NodeId, files: Mapping[str, bytes]) -> None:
        """Keep these files of the node, in place of those of the same names."""
        if not files:
            return
        # One row costs less than a file each, also for a node that will be kept.
        plain = self._state.node_folder(node)
        known = set(plain.names())
        is_plain = any(name in known and plain.file(name).exists() for name in files)
        if is_plain or not self._folded.add(node.name, files):
            plain.write_files(files)

    def fold(self, node: NodeId, last_files: Mapping[str, bytes]) -> None:
        """Fold the node's folder with these files more, and remove the copy for people."""
        if not self._folded.fold(plain := self._state.node_folder(node), last_files):
            plain.write_files(last_files)
        if not (copy := self._state.node_copy(node)).is_absent():
            with contextlib.suppress(OSError):
                copy.remove_all()

    def lay_out(self, node: NodeId, more: Mapping[str, bytes]) -> None:
        """Make the copy for people, with these files more, or complete it.

        Raises UnsafePath where somebody has put a link in the way.
        """
        copy, found = self._state.node_copy(node), self.open(node)
        plain = found.plain
        for name, content in {**found.folded, **more}.items():
            *above, last = PurePosixPath(name).parts
            copy.below(*above).file(last).write(content)
        if plain.exists():
            plain.copy_into(copy.make())

    def size(self, node: NodeId) -> int:
        """Compute the size of what is kept of the node, in bytes, with the copy for people."""
        plain, copy = self._state.node_folder(node), self._state.node_copy(node)
        return bytes_below(plain) + bytes_below(copy) + self._folded.size(node.name)

    def remove(self, node: NodeId) -> None:
        """Remove all of it."""
        self._new_descriptions.pop(node, None)
        for folder in (self._state.node_folder(node), self._state.node_copy(node)):
            if folder.exists():
                folder.remove_all()
        self._folded.remove(node.name)


# On ext4 a trial that does nothing would leave 16 inodes and 41 KB. Here it is a row: of 200 trials of parameters
# that did nothing, each left no file and 2.1 KB (`bench disk`). Not in the ledger, because every verb opens that.
# SQLite lets any number of processes add rows, and a kill at any instant leaves whole ones.


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
        # Only now that the row is committed: a kill leaves at least one of the two.
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
        """Return the files of a folder by their paths in it; none if it is not here."""
        try:
            with self._connection() as db:
                return _row(db, name)
        except (OSError, apsw.Error, ValueError, zlib.error):
            return {}

    def size(self, name: str) -> int:
        """Return what the folder takes on disk, in bytes; 0 if it is not here."""
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
    """Join the files in one compressed text: a line with their names and sizes, then one after the other."""
    head = json.dumps({name: len(content) for name, content in files.items()}).encode()
    return deflate(b"\n".join((head, b"".join(files.values()))), 6)


def decode_files(raw: bytes) -> dict[str, bytes]:
    """Split the text of `encode_files` into its files."""
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
    """Yield the regular files below a folder by path, and nothing else. Raises OSError if it is too large."""
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
