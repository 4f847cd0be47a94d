"""Reads one file of a candidate's tree as data: regular, bounded, reached through no link."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from loopty.domain.launch import Mount
from loopty.kit import untrusted_files
from loopty.kit.untrusted_files import Unreadable


def content(mounts: Sequence[Mount], tree: str, path: str, limit: int) -> bytes:
    """The bytes at `path` below `tree`, as these mounts show it. Raises Unreadable."""
    inside = PurePosixPath(path)
    if inside.is_absolute() or not inside.parts or ".." in inside.parts or "\0" in path:
        raise Unreadable(f"reads {path!r:.100}, which names no file of the candidate")
    place = PurePosixPath(tree) / inside
    # Mounts come in their order, each over the earlier ones.
    shown = [mount for mount in mounts if PurePosixPath(mount.target) in (place, *place.parents)]
    if not shown:
        raise Unreadable(f"reads {path!r:.100}, which the candidate does not see")
    try:
        raw = _read_below(shown[-1].source, place.relative_to(shown[-1].target).parts, limit)
    except Unreadable as error:
        raise Unreadable(f"reads {path!r:.100}, which {error}") from None
    except OSError:
        raw = None
    if raw is None:
        raise Unreadable(f"reads {path!r:.100}, which is not there")
    return raw


def _read_below(source: Path, steps: Sequence[str], limit: int) -> bytes | None:
    if not steps:
        return untrusted_files.content(source, limit)
    folder = os.open(source, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for step in steps[:-1]:
            above = folder
            folder = os.open(step, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
            os.close(above)
        return untrusted_files.content(Path(steps[-1]), limit, folder)
    finally:
        os.close(folder)
