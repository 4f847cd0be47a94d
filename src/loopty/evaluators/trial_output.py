"""What a trial has left, for result formats: bounded, regular files only, no link followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from loopty.kit import untrusted_files
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFolder, UnsafePath
from loopty.kit.untrusted_files import Unreadable

RESULT = "result.json"
LARGEST_RESULT = 4 << 20
_LARGEST_TOTAL = 16 << 20
_MAX_ENTRIES = 20_000
_DEEPEST_FOLDER = 16


class TrialOutput(Record):
    """The outbox of a trial whose processes are dead, and what it printed."""

    outbox: SafeFolder
    logs: SafeFolder

    def file(self, name: str) -> bytes | None:
        """A file of the outbox, or None when there is none. Raises Unreadable."""
        return _content(self.outbox, name, LARGEST_RESULT)

    def stdout(self) -> bytes:
        """What the benchmark printed. Raises Unreadable."""
        return _content(self.logs, "stdout.log", LARGEST_RESULT) or b""

    def files_below(self, folder: str, name_end: str) -> Iterator[tuple[str, bytes]]:
        """The files of a folder of the outbox whose paths end like this, by path. Raises Unreadable."""
        left = _LARGEST_TOTAL
        for steps in _paths(self.outbox.below(folder)):
            path = "/".join(steps)
            if path.endswith(name_end):
                raw = _content(self.outbox.below(folder, *steps[:-1]), steps[-1], left) or b""
                left -= len(raw)
                yield path, raw


def _content(folder: SafeFolder, name: str, limit_bytes: int) -> bytes | None:
    try:
        with folder.handle() as descriptor:
            return untrusted_files.content(Path(name), limit_bytes, descriptor)
    except (FileNotFoundError, PermissionError, UnsafePath):
        return None


def _paths(top: SafeFolder) -> list[tuple[str, ...]]:
    """The files below a folder, in order; links and special files are left out. Raises Unreadable."""
    files: list[tuple[str, ...]] = []
    waiting: list[tuple[str, ...]] = [()]
    seen = 0
    while waiting:
        steps = waiting.pop()
        try:
            with top.below(*steps).handle() as descriptor, os.scandir(descriptor) as entries:
                for entry in entries:
                    seen += 1
                    if seen > _MAX_ENTRIES:
                        raise Unreadable(f"has more than {_MAX_ENTRIES} files")
                    if entry.is_dir(follow_symlinks=False) and len(steps) < _DEEPEST_FOLDER:
                        waiting.append((*steps, entry.name))
                    elif entry.is_file(follow_symlinks=False):
                        files.append((*steps, entry.name))
        except (FileNotFoundError, PermissionError, UnsafePath):
            continue
    return sorted(files)
