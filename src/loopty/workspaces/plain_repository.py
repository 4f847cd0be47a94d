"""Finds a repository as git does, without git, where nothing about it is special: most are found many times a day.

Everything else is left to git: further working trees, links, includes, extensions, other owners, other disks.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

_LARGEST_CONFIG = 64 << 10
_SPECIAL = re.compile(rb"worktree|include|extensions", re.IGNORECASE)
_FORMAT = re.compile(rb"^\s*repositoryformatversion\s*=\s*0\s*$", re.MULTILINE)
_HEAD = re.compile(rb"ref: refs/[^\0-\x20]+\n|[0-9a-f]{40}\n")


def plain_repository(start: Path) -> tuple[Path, Path, Path] | None:
    """The working tree around a directory, its git directory, and the same again as the shared one; else None."""
    try:
        folder = os.path.realpath(start)
        device = os.stat(folder).st_dev  # noqa: PTH116
        while not os.path.lexists(f"{folder}/.git"):
            if os.path.lexists(f"{folder}/HEAD") or folder == "/":  # perhaps a bare repository
                return None
            folder = os.path.dirname(folder)  # noqa: PTH120
        top = Path(folder)
        is_plain = top.stat().st_dev == device and _is_own(top) and _is_plain(top / ".git")
    except OSError:
        return None
    return (top, top / ".git", top / ".git") if is_plain else None


def _is_plain(git_dir: Path) -> bool:
    if not _is_own(git_dir) or not all(_is_own(git_dir / name) for name in ("objects", "refs")):
        return False
    if (git_dir / "commondir").exists() or (git_dir / "config.worktree").exists():
        return False
    with (git_dir / "config").open("rb") as file:
        config = file.read(_LARGEST_CONFIG + 1)
    with (git_dir / "HEAD").open("rb") as file:
        head = file.read(4096)
    is_known = len(config) <= _LARGEST_CONFIG and bool(_FORMAT.search(config)) and not _SPECIAL.search(config)
    return is_known and bool(_HEAD.fullmatch(head))


def _is_own(folder: Path) -> bool:
    """Whether this is a directory of this user, and no link."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
