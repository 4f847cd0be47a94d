"""Where a repository is: its working tree, its git directory and the shared one, as git finds them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.kit.paths import name_as_read
from loopty.kit.records import Record

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
        top, git_dir, common_dir = _ask_git(start)
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
