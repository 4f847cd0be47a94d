"""An append-only file of lines, each flushed to disk before the next."""

from __future__ import annotations

import os
import weakref

from loopty.kit.atomic_file import write_whole
from loopty.kit.safe_folder import SafeFolder


class Journal:
    """A new file of this process; creates its folder if it is missing."""

    def __init__(self, folder: SafeFolder, name: str) -> None:
        self._place = folder.file(name)
        self._file = self._place.open(os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        weakref.finalize(self, os.close, self._file)
        self._size = 0
        with folder.handle() as descriptor:
            os.fsync(descriptor)

    def append(self, line: bytes) -> int:
        """Append a line, which contains no line break, and return where it begins.

        After an OSError half of the line may be in the file.
        """
        start = self._size
        write_whole(self._file, line + b"\n")
        os.fdatasync(self._file)
        self._size += len(line) + 1
        return start

    def line_at(self, start: int) -> bytes:
        """The line that begins at this position; empty if the file is gone."""
        try:
            with os.fdopen(self._place.open(os.O_RDONLY), "rb") as file:
                file.seek(start)
                return file.readline()
        except OSError:
            return b""
