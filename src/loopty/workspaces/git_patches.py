"""Differences between two commits as patches that `git apply` takes, independent of the user's diff settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO

from loopty.kit.temporary_folder import temporary_folder
from loopty.workspaces.git_command import END_OF_OPTIONS, GitCommand
from loopty.workspaces.git_session import GitError, read_line

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

    def __init__(self, git: GitCommand, tree_of: Callable[[str], str]) -> None:
        """`tree_of` finds the tree of a commit."""
        self._git = git
        self._tree_of = tree_of
        self._session = git.open_session("diff-tree", "--stdin", *_PATCH, config=_PATCH_CONFIG)

    def between(self, before: str, after: str) -> bytes:
        """The difference between two commits for `git apply`."""
        pair = f"{self._tree_of(before)} {self._tree_of(after)}\n".encode()

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

    def apply_to_tree(self, tree: str, patch: bytes) -> str | None:
        """The tree with this patch applied, or None when the patch does not apply."""
        if not patch:
            return tree
        with temporary_folder("index") as folder:
            env = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
            self._git.run("read-tree", END_OF_OPTIONS, tree, env=env)
            try:
                self._git.run("apply", "--cached", "--binary", "--whitespace=nowarn", "-", stdin=patch, env=env)
            except GitError:
                return None
            return self._git.run("write-tree", env=env).strip()
