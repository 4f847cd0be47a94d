"""Reads one file of a candidate's tree as data: a regular file, bounded, with no link on the way."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from loopty.domain.launch import Mount
from loopty.kit import untrusted_files
from loopty.kit.untrusted_files import Unreadable


def content(mounts: Sequence[Mount], tree: str, path: str, limit: int) -> bytes:
    """The bytes at `path` below `tree`, as these mounts show it. Raises Unreadable."""
    relative = PurePosixPath(path)
    if relative.is_absolute() or not relative.parts or ".." in relative.parts or "\0" in path:
        raise Unreadable(f"reads {path!r:.100}, which is not the path of a file of the candidate")
    target = PurePosixPath(tree) / relative
    # Mounts are in order: each covers the earlier ones.
    covering = [mount for mount in mounts if PurePosixPath(mount.target) in (target, *target.parents)]
    if not covering:
        raise Unreadable(f"reads {path!r:.100}, which the candidate cannot see")
    try:
        raw = _read_below(covering[-1].source, target.relative_to(covering[-1].target).parts, limit)
    except Unreadable as error:
        raise Unreadable(f"reads {path!r:.100}, which {error}") from None
    except OSError:
        raw = None
    if raw is None:
        raise Unreadable(f"reads {path!r:.100}, which does not exist")
    return raw


def _read_below(source: Path, steps: Sequence[str], limit: int) -> bytes | None:
    if not steps:
        return untrusted_files.content(source, limit)
    folder = os.open(source, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for step in steps[:-1]:
            parent = folder
            folder = os.open(step, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            os.close(parent)
        return untrusted_files.content(Path(steps[-1]), limit, folder)
    finally:
        os.close(folder)
