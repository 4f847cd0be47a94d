"""Submodules: their files at the recorded commit, written into an export.

A submodule may come from a stranger, and so may its configuration. So nothing of it runs: objects are read, no
filter is applied, and nothing is fetched. Its git directory must lie in the repository.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from loopty.domain.access import is_clean_path
from loopty.domain.errors import Misuse
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFolder
from loopty.workspaces.git_folders import GitFolders
from loopty.workspaces.git_objects import REGULAR_FILES, SUBMODULE
from loopty.workspaces.repository import Repository

_LINK = "120000"
_DEEPEST = 8
_LARGEST_POINTER = 4096


class CheckedOutSubmodule(Record):
    """A submodule that is checked out, at the commit that its parent records."""

    path: str
    """From the top of the outermost repository."""
    commit: str
    repository: Repository


def submodules_of(repository: Repository, commit: str, depth: int = 0) -> Iterator[CheckedOutSubmodule]:
    """The submodules of a commit that are checked out, with those inside them; the others stay empty folders."""
    if depth > _DEEPEST or not repository.entries(commit, [".gitmodules"]):
        return
    for path, entry in repository.files(commit).items():
        if entry.mode != SUBMODULE or not is_clean_path(path):
            continue
        if (folders := _folders(repository, path)) is None:
            continue
        inner = Repository(folders)
        if not inner.has_commit(entry.blob):
            raise Misuse(
                f"the submodule {path} does not have its recorded commit {entry.blob[:12]}: run "
                f"`git submodule update --init --recursive`"
            )
        yield CheckedOutSubmodule(path, entry.blob, inner)
        for deeper in submodules_of(inner, entry.blob, depth + 1):
            yield CheckedOutSubmodule(f"{path}/{deeper.path}", deeper.commit, deeper.repository)


def write_submodule(submodule: CheckedOutSubmodule, is_visible: Callable[[str], bool], into: SafeFolder) -> None:
    """Write the visible files of a submodule below the folder of an export."""
    repository = submodule.repository
    for path, entry in repository.files(submodule.commit).items():
        whole = f"{submodule.path}/{path}"
        if not is_clean_path(path) or not is_visible(whole):
            continue
        *above, name = whole.split("/")
        folder = into.below(*above).make()
        if entry.mode == SUBMODULE:
            folder.below(name).make()
        elif entry.mode == _LINK:
            with folder.handle() as descriptor:
                os.symlink(repository.blob(entry.blob), name, dir_fd=descriptor)
        elif entry.mode in REGULAR_FILES:
            with os.fdopen(folder.file(name).open(os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
                os.fchmod(file.fileno(), 0o755 if entry.mode == REGULAR_FILES[1] else 0o644)
                file.write(repository.blob(entry.blob))


def _folders(repository: Repository, path: str) -> GitFolders | None:
    """Where a submodule is; None when it is not checked out. Raises Misuse for a git directory elsewhere."""
    top = repository.top / path
    git_dir = top / ".git"
    try:
        if git_dir.is_file():
            with git_dir.open("rb") as file:
                pointer = os.fsdecode(file.read(_LARGEST_POINTER)).removeprefix("gitdir:").strip()
            git_dir = top / pointer
        real = git_dir.resolve()
        if not (real / "HEAD").is_file():
            return None
    except (OSError, ValueError):
        return None
    inside = (repository.folders.common_dir.resolve(), Path(repository.top).resolve())
    if not any(real.is_relative_to(folder) for folder in inside):
        raise Misuse(
            f"the git directory of the submodule {path} is {real}, outside the repository: move it inside with "
            f"`git submodule absorbgitdirs`, or remove {path}/.git"
        )
    return GitFolders(top, real, real)
