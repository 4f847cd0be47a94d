"""Copies of a trial's output, out of its reach; only what can be trusted is copied."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from loopty.kit import untrusted_files
from loopty.kit.untrusted_files import Unreadable

_MAX_TRACES = 2_000
_LARGEST_TRACE = 1 << 20
_LARGEST_TOTAL = 64 << 20


class TraceCopies:
    """Copies the traces of a trial that are new or have changed since the last time.

    The trial may be alive and hostile meanwhile, so each time its directory is opened once, without following a
    link, and the files are opened from there.
    """

    def __init__(self, source: Path, target: Path) -> None:
        self._source = source
        self._target = target
        self._seen: dict[str, tuple[int, int]] = {}
        self._bytes_left = _LARGEST_TOTAL

    def copy_new(self) -> None:
        try:
            folder = os.open(self._source, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return
        try:
            for name in _trace_names(folder):
                self._copy(name, folder)
        finally:
            os.close(folder)

    def _copy(self, name: str, folder: int) -> None:
        with contextlib.suppress(Unreadable, FileNotFoundError):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            state = (status.st_mtime_ns, status.st_size)
            if self._seen.get(name) == state or (name not in self._seen and len(self._seen) >= _MAX_TRACES):
                return
            self._seen[name] = state
            raw = untrusted_files.content(Path(name), min(_LARGEST_TRACE, self._bytes_left), folder) or b""
            write_copy(self._target / name, raw)
            self._bytes_left -= len(raw)


def write_copy(path: Path, raw: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)


def last_line(log: Path) -> str:
    """The last line that is not blank, for a one-line reason."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4096))
        lines = file.read().decode(errors="replace").strip().splitlines()
    printable = "".join(char if char.isprintable() else " " for char in lines[-1]) if lines else ""
    return printable.strip()[:200]


def _trace_names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        names = [entry.name for entry, _ in zip(entries, range(_MAX_TRACES), strict=False)]
    return sorted(name for name in names if name.startswith("task_") and name.endswith(".json"))
