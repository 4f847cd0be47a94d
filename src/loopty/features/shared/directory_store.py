"""A store in a directory that several machines mount, each file under its name, which leads nowhere else."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.shared_store import StoredEntry, StoreFault
from loopty.kit.contents import write_atomically

MARK = "loopty-store"
"""The name that says that this is a store: an empty mount point has none."""
MARK_TEXT = b"Files of loopty, by their hashes: see docs/many-machines.md.\n"
_NAME = re.compile(r"[A-Za-z0-9-]+(?:[./][A-Za-z0-9-]+)*")


def require_name(name: str) -> str:
    """Return the name, if it can be one of a store."""
    if not _NAME.fullmatch(name) or len(name) > 400:
        raise ValueError(f"{name!r} cannot be a name in a store")
    return name


def is_store_name(name: str) -> bool:
    """Say whether loopty may have given this name."""
    return len(name) <= 400 and _NAME.fullmatch(name) is not None


# Other users may write to it, so no link in it is followed, and only regular files are read.


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_REMEDIES = {
    errno.ENOSPC: "free some space there",
    errno.EDQUOT: "free some space there, or ask for a larger quota",
    errno.EROFS: "mount it so that it can be written",
    errno.EACCES: "correct the permissions",
    errno.EPERM: "correct the permissions",
}


def open_place(place: str) -> DirectoryStore:
    """Open the store in this directory. Raises Misuse where it can be none."""
    path = Path(place).expanduser()
    if "://" in place or not path.is_absolute():
        raise Misuse(f"{place!r} names no store: write an absolute path, or s3://BUCKET/PREFIX")
    return DirectoryStore(path)


class DirectoryStore:
    """The files below one directory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.shown = str(root)

    def prepare(self) -> None:
        with self._faults():
            self._root.mkdir(parents=True, exist_ok=True)
            with self._folder(()) as top:
                write_atomically(".", MARK, MARK_TEXT, durable=True, dir_fd=top)

    def put(self, name: str, content: bytes) -> None:
        *above, last = require_name(name).split("/")
        with self._faults():
            self._require_mark()
            with self._folder(above, make=True) as folder:
                write_atomically(".", last, content, durable=True, dir_fd=folder)

    def get(self, name: str, limit_bytes: int) -> bytes | None:
        *above, last = require_name(name).split("/")
        with self._faults():
            self._require_mark()
            try:
                with self._folder(above) as folder:
                    descriptor = os.open(last, _FILE, dir_fd=folder)
            except FileNotFoundError:
                return None
            with os.fdopen(descriptor, "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode) or found.st_size > limit_bytes:
                    raise StoreFault(f"{self._root / name} is no file of loopty, or too large: remove it there")
                return file.read(limit_bytes + 1)[:limit_bytes]

    def has(self, name: str) -> bool:
        *above, last = require_name(name).split("/")
        with self._faults():
            self._require_mark()
            try:
                with self._folder(above) as folder:
                    return stat.S_ISREG(os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode)
            except FileNotFoundError:
                return False

    def entries(self, prefix: str) -> Iterator[StoredEntry]:
        with self._faults():
            self._require_mark()
            steps = require_name(prefix.rstrip("/")).split("/")
            yield from self._entries_below(steps)

    def remove(self, name: str) -> None:
        *above, last = require_name(name).split("/")
        with self._faults():
            self._require_mark()
            with contextlib.suppress(FileNotFoundError), self._folder(above) as folder:
                os.unlink(last, dir_fd=folder)

    def _entries_below(self, steps: list[str]) -> Iterator[StoredEntry]:
        try:
            with self._folder(steps) as folder:
                found = [(name, _status(name, folder)) for name in os.listdir(folder)]  # noqa: PTH208
        except FileNotFoundError:
            return
        for name, status in sorted(found, key=lambda item: item[0]):
            if status is None or not is_store_name("/".join((*steps, name))):
                continue  # removed just now, or not ours: a file that is being written, folders without end
            if stat.S_ISDIR(status.st_mode):
                yield from self._entries_below([*steps, name])
            elif stat.S_ISREG(status.st_mode):
                yield StoredEntry("/".join((*steps, name)), status.st_mtime)

    def _require_mark(self) -> None:
        """Refuse an empty mount point: what is written there would be on the wrong disk."""
        try:
            with self._folder(()) as top:
                os.stat(MARK, dir_fd=top, follow_symlinks=False)
        except FileNotFoundError:
            raise StoreFault(
                f"{self._root} is no store of loopty, or its file system is not mounted here: mount it, or make "
                f"it a store with `loopty config ledger --store {self._root}`"
            ) from None

    @contextlib.contextmanager
    def _folder(self, steps: list[str] | tuple[str, ...], make: bool = False) -> Iterator[int]:
        """Hold a handle of a folder below the root, reached through no link."""
        with contextlib.ExitStack() as handles:
            handle = os.open(self._root, _FOLDER)
            handles.callback(os.close, handle)
            for step in steps:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(step, dir_fd=handle)
                handle = os.open(step, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
                handles.callback(os.close, handle)
            yield handle

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            remedy = _REMEDIES.get(error.errno or 0, "see that its file system is mounted and works")
            raise StoreFault(f"the store {self._root} cannot be used ({error.strerror}): {remedy}") from None


def _status(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
