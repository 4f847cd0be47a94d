"""The content of a folder, in enough detail to notice every change."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from loopty.kit.records import Record


class FileState(Record):
    """One file or directory at one moment."""

    mode: int
    owner: int
    names: int
    modified_ns: int
    digest: str


def file_states(*folders: Path) -> dict[str, FileState]:
    """The states of the folders and everything below them, by path."""
    return {str(path): _file_state(path) for folder in folders for path in (folder, *paths_below(folder))}


def difference(before: Mapping[str, FileState], after: Mapping[str, FileState]) -> str:
    """One thing that changed, in words; an empty text when nothing changed."""
    for path in sorted({*before, *after}):
        if before.get(path) != after.get(path):
            verb = "created" if path not in before else "removed" if path not in after else "changed"
            return f"{verb} {Path(path).name}"
    return ""


def paths_below(folder: Path) -> Iterator[Path]:
    """Every path below a folder; links are not followed."""
    for here, directories, files in os.walk(folder, followlinks=False):
        for name in (*directories, *files):
            yield Path(here, name)


def regular_file_content(path: Path) -> bytes | None:
    """The content of a regular file; None when the path is anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def _file_state(path: Path) -> FileState:
    status = path.lstat()
    content = regular_file_content(path) if stat.S_ISREG(status.st_mode) else None
    digest = hashlib.sha256(content).hexdigest() if content is not None else ""
    return FileState(status.st_mode, status.st_uid, status.st_nlink, status.st_mtime_ns, digest)
