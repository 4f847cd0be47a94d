"""Copies of a trial's output, out of its reach; only what can be trusted is copied."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from loopty.kit import untrusted_files
from loopty.kit.safe_folder import SafeFile, SafeFolder, UnsafePath
from loopty.kit.untrusted_files import Unreadable

_MAX_TRACES = 2_000
_LARGEST_TRACE = 1 << 20
_LARGEST_TOTAL = 64 << 20


class TraceCopies:
    """Copies the traces of a trial that are new or have changed since the last time.

    The trial may be alive and hostile meanwhile, so each time its directory is opened once, without following a
    link, and the files are opened from there.
    """

    def __init__(self, source: SafeFolder, target: SafeFolder) -> None:
        self._source = source
        self._target = target
        self._seen: dict[str, tuple[int, int]] = {}
        self._bytes_left = _LARGEST_TOTAL

    def copy_new(self) -> None:
        with contextlib.ExitStack() as resources:
            try:
                folder = resources.enter_context(self._source.handle())
            except (FileNotFoundError, PermissionError, UnsafePath):
                return
            for name in _trace_names(folder):
                self._copy(name, folder)

    def _copy(self, name: str, folder: int) -> None:
        with contextlib.suppress(Unreadable, FileNotFoundError):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            state = (status.st_mtime_ns, status.st_size)
            if self._seen.get(name) == state or (name not in self._seen and len(self._seen) >= _MAX_TRACES):
                return
            self._seen[name] = state
            raw = untrusted_files.content(Path(name), min(_LARGEST_TRACE, self._bytes_left), folder) or b""
            self._target.file(name).write(raw)
            self._bytes_left -= len(raw)


def last_line(log: SafeFile) -> str:
    """The last line that is not blank, for a one-line reason."""
    lines = log.read(4096, tail=True).decode(errors="replace").strip().splitlines()
    printable = "".join(char if char.isprintable() else " " for char in lines[-1]) if lines else ""
    return printable.strip()[:200]


def _trace_names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        names = [entry.name for entry, _ in zip(entries, range(_MAX_TRACES), strict=False)]
    return sorted(name for name in names if name.startswith("task_") and name.endswith(".json"))
