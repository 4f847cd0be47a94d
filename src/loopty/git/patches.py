"""Differences between two commits as patches that `git apply` takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from loopty.git.command import END_OF_OPTIONS, GitCommand, GitError, read_line
from loopty.git.objects import GitObjects, TreeEntry
from loopty.kit.temporary_folder import temporary_folder

_NO_PROGRAMS = ("--no-ext-diff", "--no-textconv")
_PATCH = (
    *("--patch", *_NO_PROGRAMS, "--no-color", "--binary", "--full-index", "--no-renames", "--src-prefix=a/"),
    *("--dst-prefix=b/", "--diff-algorithm=myers", "--unified=3", "--inter-hunk-context=0", "--indent-heuristic"),
)
_END_OF_PATCH = b"= end of patch ="
"""Git echoes a line that names no object at once, and no line of a patch begins like this."""
_PATCH_CONFIG = ("core.compression=6", "diff.suppressBlankEmpty=false")


class GitPatches:
    """Makes patches and applies them to trees."""

    def __init__(self, git: GitCommand, objects: GitObjects) -> None:
        self._git = git
        self._objects = objects
        self._session = git.open_session("diff-tree", "--stdin", *_PATCH, config=_PATCH_CONFIG)

    def between(self, before: str, after: str) -> bytes:
        """Return the difference between two commits for `git apply`."""
        pair = f"{self._objects.tree_of(before)} {self._objects.tree_of(after)}\n".encode()

        def read_answer(stream: IO[bytes]) -> bytes:
            lines = []
            while (next_line := read_line(stream)) != _END_OF_PATCH:
                lines.append(next_line + b"\n")
            return b"".join(lines[1:])  # the first names the two trees

        try:
            return self._session.ask(pair + _END_OF_PATCH + b"\n", read_answer)
        except EOFError:
            raise GitError(
                "diff-tree", f"ended before it returned the difference between {before} and {after}"
            ) from None

    def paths_in(self, patch: bytes) -> list[str] | None:
        """List the paths that a patch leaves changed, whatever it is applied to; None if it is no patch."""
        try:
            lines = self._git.run("apply", "--numstat", "-z", "-", stdin=patch).split("\0")
        except GitError:
            return None
        return [line.split("\t", 2)[2] for line in lines if line]

    def apply_to_files(self, files: Mapping[str, TreeEntry], patch: bytes) -> tuple[str, str] | None:
        """Make a tree of these files alone, and the same with this patch; None if the patch does not apply to it.

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
        """Return the tree with this patch applied, or None if the patch does not apply."""
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
