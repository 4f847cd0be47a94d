"""A file that only grows, line by line, each on the disk before the next."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

from loopty.kit.atomic_file import sync_folder


class Journal:
    """A new file of this process; its folder is made where it is missing."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / name
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(self._path, flags, 0o666)
        weakref.finalize(self, os.close, self._file)
        self._size = 0
        sync_folder(os.fspath(folder))

    def append(self, line: bytes) -> int:
        """Add a line without an end of line in it; where it begins. After an OSError half of it may be there."""
        start = self._size
        left = memoryview(line + b"\n")
        while left:
            left = left[os.write(self._file, left) :]
        os.fdatasync(self._file)
        self._size += len(line) + 1
        return start

    def line_at(self, start: int) -> bytes:
        """The line that begins there; nothing where the file is gone."""
        try:
            with self._path.open("rb") as file:
                file.seek(start)
                return file.readline()
        except OSError:
            return b""
