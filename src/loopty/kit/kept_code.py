"""The byte code of the modules that a verb imported before, in one file of the user's cache.

Opening two hundred files, and reading the same names from each of them, takes a twentieth of a short verb. Code
counts only while its source has the size and the date that it was compiled from, and where no other user can
change the file. Nothing large is imported here: what is imported before cannot be kept.
"""

from __future__ import annotations

import marshal
import os
import sys
from _frozen_importlib_external import MAGIC_NUMBER
from binascii import crc32

from loopty.kit.user_cache import cache_folder, keep_newest, make_own_folder, open_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

_FOLDER = "modules"
_MOST = 24
"""Files that are kept; a verb has one for each place where loopty is installed."""
_HEAD = b"loopty modules 1\n" + MAGIC_NUMBER
"""What a file begins with, before the folder of the package and the Python that runs it."""


class ModuleCode:
    """The code of a module, and the source that it was compiled from."""

    __slots__ = ("_state", "code", "compiled", "is_package", "source")

    def __init__(
        self, code: CodeType, source: str, compiled: str, is_package: bool, state: tuple[int, ...]
    ) -> None:
        """Of a source in this state, as `times_and_size` gives it; `compiled` is Python's file for it."""
        self.code, self.source, self.compiled, self.is_package = code, source, compiled, is_package
        self._state = state

    @property
    def is_valid(self) -> bool:
        """Whether the source is as it was."""
        try:
            return times_and_size(os.stat(self.source)) == self._state  # noqa: PTH116
        except OSError:
            return False

    @property
    def values(self) -> tuple[Any, ...]:
        """What it is made of, to be made again."""
        return self.code, self.source, self.compiled, self.is_package, self._state


def times_and_size(status: os.stat_result) -> tuple[int, ...]:
    """What changes with the content of a file: also the time that nobody can set."""
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size


class KeptCode:
    """The modules of one verb, of the package in one folder."""

    def __init__(self, verb: str, package: str) -> None:
        python = f"{sys.version}\n{sys.flags.optimize}\n{os.__file__}"
        place = os.fsencode(f"{package}\n{python}\n")
        self._name = f"{verb}-{crc32(place):08x}"
        self._head = _HEAD + place
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
            make_own_folder(folder)
            content = self._head + marshal.dumps({**_read(self._name, self._head), **self._added})
            write_atomically(folder, self._name, content, mode=0o600)
            keep_newest(folder, _MOST, _is_own_name)


def _read(name: str, head: bytes) -> dict[str, tuple[Any, ...]]:
    if (folder := cache_folder(_FOLDER)) is None:
        return {}
    try:
        with open(open_own(folder, name), "rb", buffering=0) as file:  # noqa: PTH123
            content = file.read()
    except OSError:
        return {}
    if not content.startswith(head):
        return {}
    try:
        known: dict[str, tuple[Any, ...]] = marshal.loads(memoryview(content)[len(head) :])
    except (EOFError, TypeError, ValueError):  # it was cut off
        return {}
    return known if type(known) is dict else {}


def _is_own_name(name: str) -> bool:
    return name[-9:-8] == "-"
