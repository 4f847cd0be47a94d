"""Let an unprivileged trial reach files in directories that only root may enter."""

# Without pathlib: its import would take as long as everything else.
# ruff: noqa: PTH102, PTH103, PTH116
from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from loopty.sandboxes.raw_calls import (
    CLONE_NEWNS,
    MS_BIND,
    MS_NODEV,
    MS_NOSUID,
    MS_REC,
    MS_SLAVE,
    mount,
    unshare,
)

_SEARCH_ONLY = 0o711


def make_reachable(paths: Iterable[str], uid: int, gid: int) -> None:
    """Make every path reachable for the user under its own name, in a mount namespace of this process.

    A closed directory is covered by one that everyone may search and that holds only these paths.
    """
    by_folder: dict[str, list[str]] = {}
    for path in paths:
        if (folder := _topmost_closed_folder(path, uid, gid)) is not None:
            by_folder.setdefault(folder, []).append(path)
    if not by_folder:
        return
    unshare(CLONE_NEWNS)
    # A slave mount still follows what the host mounts and unmounts, but the host sees nothing of ours.
    mount("none", "/", None, MS_REC | MS_SLAVE)
    for folder, paths_inside in by_folder.items():
        _replace(folder, sorted(paths_inside))


def _topmost_closed_folder(path: str, uid: int, gid: int) -> str | None:
    """The topmost directory above `path` that the user cannot search, or None."""
    names = path.split("/")
    for length in range(1, len(names)):
        directory = "/".join(names[:length]) or "/"
        if not _may_search(os.stat(directory), uid, gid):
            return directory
    return None


def _may_search(status: os.stat_result, uid: int, gid: int) -> bool:
    if status.st_uid == uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def _replace(folder: str, paths: list[str]) -> None:
    # A path below another of these paths is already shown by that one.
    outermost = [path for path in paths if not any(path.startswith(f"{above}/") for above in paths)]
    sources = {path: os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC) for path in outermost}
    mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, f"mode={_SEARCH_ONLY:o}")
    for path, source in sources.items():
        parent, is_directory = path.rpartition("/")[0], stat.S_ISDIR(os.fstat(source).st_mode)
        os.makedirs(parent, _SEARCH_ONLY, exist_ok=True)
        if is_directory:
            os.mkdir(path)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
        mount(f"/proc/self/fd/{source}", path, None, MS_BIND | MS_REC)
        os.close(source)
