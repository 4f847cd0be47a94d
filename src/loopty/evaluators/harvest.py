"""Copies of a trial's output, out of its reach; only what can be trusted is copied."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from loopty.evaluators.error_lines import MAX_LINES, clean_lines, find_error_lines
from loopty.kit import untrusted_files
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFile, SafeFolder, UnsafePath
from loopty.kit.untrusted_files import Unreadable

_MAX_TRACES = 2_000
_LARGEST_TRACE = 1 << 20
_LARGEST_TOTAL = 64 << 20
_TAIL = 64 << 10


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


class PrintedError(Record):
    """What a command printed about its failure."""

    cause: str
    """The line that names the error; empty when nothing was printed."""
    lines: tuple[str, ...]
    log: str
    """The log that has the lines."""


def error_in_output(stdout: SafeFile, stderr: SafeFile) -> PrintedError:
    """Find the error in the logs of a failed command: test runners print theirs to stdout."""
    found = [(find_error_lines(_tail(log)), log.name) for log in (stderr, stdout)]
    best = max(found, key=lambda item: item[0].is_certain + 1 if item[0] else 0)
    return PrintedError(best[0].cause, best[0].lines, best[1]) if best[0] else PrintedError("", (), stderr.name)


def error_line(log: SafeFile) -> str:
    """Find the line of this log that names the error; empty when it holds nothing."""
    found = find_error_lines(_tail(log))
    return found.cause if found else ""


def last_lines(stdout: SafeFile, stderr: SafeFile) -> PrintedError:
    """Return the last lines of a command that did not say what is wrong: of stdout, or else of stderr."""
    for log in (stdout, stderr):
        if lines := clean_lines(_tail(log)):
            return PrintedError("", tuple(lines[-MAX_LINES:]), log.name)
    return PrintedError("", (), stderr.name)


def _tail(log: SafeFile) -> str:
    try:
        return log.read(_TAIL, tail=True).decode(errors="replace")
    except FileNotFoundError:  # nothing was printed
        return ""


def _trace_names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        names = [entry.name for entry, _ in zip(entries, range(_MAX_TRACES), strict=False)]
    return sorted(name for name in names if name.startswith("task_") and name.endswith(".json"))
