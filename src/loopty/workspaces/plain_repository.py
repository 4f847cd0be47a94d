"""Finds a repository as git does, without git, where nothing about it is special: most are found many times a day.

Everything else is left to git: further working trees, links, includes, extensions, other owners, other disks.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_LARGEST_CONFIG = 64 << 10
_SPECIAL = (b"worktree", b"include", b"extensions")
_REF = b"ref: refs/"
_HEX_DIGITS = frozenset(b"0123456789abcdef")


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
    return len(config) <= _LARGEST_CONFIG and _is_plain_config(config.lower()) and _is_plain_head(head)


def _is_plain_config(config: bytes) -> bool:
    # Without regular expressions, here and below: compiling them takes longer than all the rest.
    lines = (line.replace(b"=", b" = ").split() for line in config.splitlines())
    has_format = [b"repositoryformatversion", b"=", b"0"] in lines
    return has_format and not any(word in config for word in _SPECIAL)


def _is_plain_head(head: bytes) -> bool:
    name = head.removesuffix(b"\n")
    if name.startswith(_REF):
        return len(name) > len(_REF) and min(name[len(_REF) :]) > 0x20 and name != head
    return len(name) == 40 and name != head and _HEX_DIGITS.issuperset(name)


def _is_own(folder: Path) -> bool:
    """Whether this is a directory of this user, and no link."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
