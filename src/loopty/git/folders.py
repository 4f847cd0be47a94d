"""Where a repository is: its working tree, its git directory and the shared one; found without git where nothing
is special.

Everything else is left to git: further working trees, links, includes, extensions, other owners, other disks.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.kit.paths import name_as_read
from loopty.kit.records import Record

_LARGEST_CONFIG = 64 << 10
_SPECIAL = (b"worktree", b"include", b"extensions")
_REF = b"ref: refs/"
_HEX_DIGITS = frozenset(b"0123456789abcdef")


def plain_repository(start: Path) -> tuple[Path, Path, Path] | None:
    """Find the working tree around a directory, its git directory, and the same as the shared one; else None."""
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
    """Say whether this is a directory of this user, and no link."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


# A planted fsmonitor or hook would run with our permissions.
SAFE_CONFIG = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false")
# Files of a clone may have the form of a bare repository, with a configuration of its author's.
_NO_HIDDEN_REPOSITORY = ("-c", "safe.bareRepository=explicit")
WORK_FOLDER = ".loopty"
"""The folder of loopty in the working tree."""
_OURS = (WORK_FOLDER, ".git")


class GitFolders(Record):
    """The real paths of a repository, without links."""

    top: Path
    git_dir: Path
    common_dir: Path
    """The git directory that all working trees of the repository share."""

    @classmethod
    def find(cls, start: Path) -> GitFolders:
        """Find the repository that contains this directory. Raises Misuse when there is none."""
        plain = plain_repository(start) if shutil.which("git") else None
        top, git_dir, common_dir = plain or _ask_git(start)
        # A trial may leave a `.git` in its draft, and its filters would run with our permissions.
        if ours := next((above for above in top.parents if above.name in _OURS), None):
            raise Misuse(f"{top} is not your repository, it lies in {ours}: start in {ours.parent}")
        if not _leads_to(top / ".git", git_dir):
            raise Misuse(
                f"{git_dir} says that its working tree is {top}, which is not: remove core.worktree from its "
                "configuration, if the repository is yours"
            )
        return cls(top, git_dir, common_dir)


def _ask_git(start: Path) -> tuple[Path, Path, Path]:
    """Ask git for the working tree, its git directory and the shared one. Raises Misuse if there is none."""
    paths = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir")
    command = ["git", *SAFE_CONFIG, *_NO_HIDDEN_REPOSITORY, "rev-parse", *paths]
    try:
        result = subprocess.run(
            command, cwd=start, env=environment_without_git(os.environ), capture_output=True, text=True
        )
    except FileNotFoundError:
        raise Misuse("git is not installed: install it with the system's package manager") from None
    if result.returncode:
        reason = result.stderr.strip().splitlines()[0] if result.stderr.strip() else "not a git repository"
        remedy = "start in a git repository, or create one with `git init`"
        if "dubious ownership" in reason:
            remedy = "it belongs to another user; if it is yours, `sudo chown -R $(id -un) .` in it"
        raise Misuse(f"{reason}: {remedy}")
    top, git_dir, common_dir = (Path(start, line).resolve() for line in result.stdout.splitlines())
    return top, git_dir, common_dir


def _leads_to(entry: Path, git_dir: Path) -> bool:
    """Say whether the `.git` of a working tree is this directory, or a file that names it."""
    if entry.resolve() == git_dir:
        return True
    try:
        words, _, path = entry.read_text(encoding="utf-8", errors="surrogateescape").partition(": ")
    except OSError:
        return False
    return words == "gitdir" and Path(entry.parent, path.rstrip("\r\n")).resolve() == git_dir


def is_work_folder(name: str) -> bool:
    """Say whether some file system takes this name for loopty's folder: in any case and any unicode form."""
    return name_as_read(name) == WORK_FOLDER


def environment_without_git(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without variables that point git at another repository or index."""
    return {name: value for name, value in environ.items() if not name.startswith("GIT_")}
