"""The byte code of the modules that a verb imported before, in one file of the user's cache.

Opening two hundred files, and reading the same names from each of them, takes a twentieth of a short verb. Code
counts only while its source has the size and the date that it was compiled from, and where no other user can
change the file. Nothing large is imported here: what is imported before cannot be kept.
"""

from __future__ import annotations

import marshal
import os
import stat
from _frozen_importlib_external import MAGIC_NUMBER
from binascii import crc32

from loopty.kit.user_cache import cache_folder, is_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

_FOLDER = "modules"
_MOST = 24
"""Files that are kept; a verb has one for each place where loopty is installed."""
_HEAD = b"loopty modules 1\n" + MAGIC_NUMBER
"""What a file begins with, before the folder of the package."""


class ModuleCode:
    """The code of a module, and the source that it was compiled from."""

    __slots__ = ("changed_at", "code", "compiled", "is_package", "size", "source")

    def __init__(
        self, code: CodeType, source: str, compiled: str, is_package: bool, changed_at: int, size: int
    ) -> None:
        """Of a source with this size, changed at this time in nanoseconds; `compiled` is Python's file for it."""
        self.code, self.source, self.compiled, self.is_package = code, source, compiled, is_package
        self.changed_at, self.size = changed_at, size

    @property
    def is_valid(self) -> bool:
        """Whether the source is as it was."""
        try:
            status = os.stat(self.source)  # noqa: PTH116
        except OSError:
            return False
        return status.st_mtime_ns == self.changed_at and status.st_size == self.size

    @property
    def values(self) -> tuple[Any, ...]:
        """What it is made of, to be made again."""
        return self.code, self.source, self.compiled, self.is_package, self.changed_at, self.size


class KeptCode:
    """The modules of one verb, of the package in one folder."""

    def __init__(self, verb: str, package: str) -> None:
        folder = os.fsencode(package)
        self._name = f"{verb}-{crc32(folder):08x}"
        self._head = _HEAD + folder + b"\n"
        self._known = _read(self._name, self._head)
        self._added: dict[str, tuple[Any, ...]] = {}

    def find(self, name: str) -> ModuleCode | None:
        """The code of this module, if it was kept and its source is as it was; once, and then it is let go."""
        kept = self._known.pop(name, None)
        found = ModuleCode(*kept) if kept is not None else None
        return found if found is not None and found.is_valid else None

    def add(self, name: str, found: ModuleCode) -> None:
        """Let `save` keep it."""
        self._added[name] = found.values

    def save(self) -> None:
        """Write the file anew, if there is anything to add to it, and the cache can be written."""
        if not self._added or (folder := cache_folder(_FOLDER)) is None:
            return
        import contextlib

        from loopty.kit.atomic_file import write_atomically

        with contextlib.suppress(OSError):
            os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
            content = self._head + marshal.dumps({**_read(self._name, self._head), **self._added})
            write_atomically(folder, self._name, content, mode=0o600)
            _remove_old(folder)


def _read(name: str, head: bytes) -> dict[str, tuple[Any, ...]]:
    if (folder := cache_folder(_FOLDER)) is None:
        return {}
    try:
        descriptor = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return {}
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123
        content = file.read() if is_own(os.fstat(descriptor), stat.S_IFREG) else b""
    if not content.startswith(head):
        return {}
    try:
        known: dict[str, tuple[Any, ...]] = marshal.loads(memoryview(content)[len(head) :])
    except (EOFError, TypeError, ValueError):  # it was cut off
        return {}
    return known


def _remove_old(folder: str) -> None:
    with os.scandir(folder) as entries:
        files = sorted((entry.stat().st_mtime, entry.path) for entry in entries if entry.is_file())
    for _, path in files[:-_MOST]:
        os.unlink(path)  # noqa: PTH108
