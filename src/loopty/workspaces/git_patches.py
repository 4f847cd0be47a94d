"""Differences between two commits as patches that `git apply` takes, independent of the user's diff settings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO

from loopty.kit.temporary_folder import temporary_folder
from loopty.workspaces.git_command import END_OF_OPTIONS, GitCommand
from loopty.workspaces.git_objects import REGULAR_FILES, GitObjects, TreeEntry
from loopty.workspaces.git_session import GitError, read_line
from loopty.workspaces.line_patch import FileVersion, file_patch
from loopty.workspaces.object_store import ObjectStore

_NO_PROGRAMS = ("--no-ext-diff", "--no-textconv")
_PATCH = (
    *("--patch", *_NO_PROGRAMS, "--no-color", "--binary", "--full-index", "--no-renames", "--src-prefix=a/"),
    *("--dst-prefix=b/", "--diff-algorithm=myers", "--unified=3", "--inter-hunk-context=0", "--indent-heuristic"),
)
_END_OF_PATCH = b"= end of patch ="
"""Git echoes a line that names no object at once, and no line of a patch begins like this."""
_MOST_FILES = 20
_LARGEST = 1 << 20
"""Of the files together, in bytes: git makes the patch of more."""
_PATCH_CONFIG = ("core.compression=6", "diff.suppressBlankEmpty=false")


class GitPatches:
    """Makes patches and applies them to trees."""

    def __init__(self, git: GitCommand, objects: GitObjects, store: ObjectStore) -> None:
        self._git = git
        self._objects = objects
        self._store = store
        self._session = git.open_session("diff-tree", "--stdin", *_PATCH, config=_PATCH_CONFIG)

    def between(self, before: str, after: str) -> bytes:
        """The difference between two commits for `git apply`."""
        old, new = self._objects.tree_of(before), self._objects.tree_of(after)
        own = self._small_patch(old, new)
        return self._patch_by_git(old, new) if own is None else own

    def _small_patch(self, before: str, after: str) -> bytes | None:
        """The difference between two trees, where that is one of a few small text files; else None."""
        changes = list(islice(self._objects.tree_changes(before, after), _MOST_FILES + 1))
        entries = {entry for change in changes for entry in (change.before, change.after) if entry}
        if len(changes) > _MOST_FILES or any(entry.mode not in REGULAR_FILES for entry in entries):
            return None
        if sum(self._store.sizes(entry.blob for entry in entries).values()) > _LARGEST:
            return None
        versions: dict[TreeEntry | None, FileVersion | None] = {
            entry: FileVersion(entry.mode, entry.blob, self._store.read(entry.blob)) for entry in entries
        }
        changes.sort(key=lambda change: os.fsencode(change.path))
        parts = [
            file_patch(change.path, versions.get(change.before), versions.get(change.after)) for change in changes
        ]
        return None if None in parts else b"".join(filter(None, parts))

    def _patch_by_git(self, before: str, after: str) -> bytes:
        pair = f"{before} {after}\n".encode()

        def read_answer(stream: IO[bytes]) -> bytes:
            lines = []
            while (next_line := read_line(stream)) != _END_OF_PATCH:
                lines.append(next_line + b"\n")
            return b"".join(lines[1:])  # the first names the two trees

        self._git.show_all_objects()
        try:
            return self._session.ask(pair + _END_OF_PATCH + b"\n", read_answer)
        except EOFError:
            raise GitError(
                "diff-tree", f"ended before it returned the difference between {before} and {after}"
            ) from None

    def paths_in(self, patch: bytes) -> list[str] | None:
        """The paths that a patch leaves changed, whatever it is applied to; None when it is no patch."""
        try:
            lines = self._git.run("apply", "--numstat", "-z", "-", stdin=patch).split("\0")
        except GitError:
            return None
        return [line.split("\t", 2)[2] for line in lines if line]

    def apply_to_files(self, files: Mapping[str, TreeEntry], patch: bytes) -> tuple[str, str] | None:
        """A tree of these files alone, and the same with this patch; None when the patch does not apply to it.

        A patch may name any file as its source (`copy from`), so what it must not read must not be there.
        """
        lines = b"".join(
            f"{entry.mode} {entry.blob}\t{path}\0".encode(errors="surrogateescape")
            for path, entry in files.items()
        )
        with self._index() as env:
            self._git.run("update-index", "-z", "--index-info", stdin=lines, env=env)
            before = self._git.run("write-tree", env=env).strip()
            return None if (after := self._apply(patch, env)) is None else (before, after)

    def apply_to_tree(self, tree: str, patch: bytes) -> str | None:
        """The tree with this patch applied, or None when the patch does not apply."""
        if not patch:
            return tree
        with self._index() as env:
            self._git.run("read-tree", END_OF_OPTIONS, tree, env=env)
            return self._apply(patch, env)

    @contextmanager
    def _index(self) -> Iterator[dict[str, str]]:
        with temporary_folder("index") as folder:
            yield {"GIT_INDEX_FILE": str(Path(folder, "index"))}

    def _apply(self, patch: bytes, env: Mapping[str, str]) -> str | None:
        try:
            self._git.run("apply", "--cached", "--binary", "--whitespace=nowarn", "-", stdin=patch, env=env)
        except GitError:
            return None
        return self._git.run("write-tree", env=env).strip()
