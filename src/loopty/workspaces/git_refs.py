"""The refs of a repository: its branches, and those that loopty keeps outside the branch list."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

from loopty.domain.errors import Misuse
from loopty.workspaces.git_command import END_OF_OPTIONS, GitCommand
from loopty.workspaces.git_session import GitError, read_line

_NODE_BRANCH_PREFIX = "loopty-"


class GitRefs:
    """Reads, makes and moves refs. Any number of processes may do so at once."""

    def __init__(self, git: GitCommand, name_of_ref: Callable[[str], str | None]) -> None:
        """`name_of_ref` finds the object that a ref names."""
        self._git = git
        self._name_of_ref = name_of_ref
        # No reflog: what a run held before is not wanted any more.
        self._session = git.open_session("update-ref", "--stdin", config=("core.logAllRefUpdates=false",))

    def make_branch(self, name: str, commit: str, move: bool = False) -> None:
        """Make a branch. An existing branch must be at this commit, unless `move` is set. Raises Misuse."""
        # Our own names are simple; only `git branch` knows which other names are valid.
        if not move and name.startswith(_NODE_BRANCH_PREFIX) and self.swap(f"refs/heads/{name}", commit, None):
            return
        try:
            self._git.run("branch", "--no-track", *(("--force",) if move else ()), END_OF_OPTIONS, name, commit)
        except GitError as error:
            if move or self.branch_tip(name) != commit:
                raise Misuse(f"cannot make branch {name}: {error.message.splitlines()[0]}") from None

    def swap(self, ref: str, commit: str | None, before: str | None) -> bool:
        """Let a ref name this commit, or remove it, if it names `before` now; None: there is none. Else False."""
        expected = [b"start: ok", b"prepare: ok", b"commit: ok"]
        change = f"delete {ref} {before}" if commit is None else f"update {ref} {commit} {before}"
        change = change if before else f"create {ref} {commit}"
        self._git.show_all_objects()
        with contextlib.suppress(EOFError):
            question = f"start\n{change}\nprepare\ncommit\n".encode()
            return self._session.ask(question, lambda stream: [read_line(stream) for _ in expected]) == expected
        return False

    def branch_tip(self, branch: str) -> str | None:
        """The commit of a branch, or None when there is no such branch."""
        return self.tip(f"refs/heads/{branch}")

    def tip(self, ref: str) -> str | None:
        """The object that a ref names, or None when there is no such ref."""
        return self._name_of_ref(ref)

    def names_below(self, prefix: str) -> list[str]:
        """The refs below this prefix, which ends with a slash."""
        return self._git.run("for-each-ref", "--format=%(refname)", END_OF_OPTIONS, prefix).splitlines()

    def first_parents(self, commit: str, most: int | None = None) -> Iterator[list[str]]:
        """The parents of this commit, of its first parent, and so on, of so many at most."""
        limit = () if most is None else (f"--max-count={most}",)
        options = ("--first-parent", "--parents", *limit, END_OF_OPTIONS, commit)
        return (line.split()[1:] for line in self._git.run("rev-list", *options).splitlines())

    def branches_without_worktree(self, pattern: str) -> dict[str, str]:
        """The branches that match and that no working tree has checked out, with their commits."""
        line = "--format=%(refname:lstrip=2) %(objectname) %(worktreepath)"
        lines = self._git.run("for-each-ref", line, END_OF_OPTIONS, f"refs/heads/{pattern}").splitlines()
        found = (line.split(" ", 2) for line in lines)
        return {name: commit for name, commit, worktree in found if not worktree}

    def branches(self, pattern: str) -> list[str]:
        """The names of the branches that match."""
        name = "--format=%(refname:lstrip=2)"
        return self._git.run("for-each-ref", name, END_OF_OPTIONS, f"refs/heads/{pattern}").splitlines()

    @functools.cached_property
    def wants_branches(self) -> bool:
        """Whether the user wants a branch for each node: `git config loopty.branches true`."""
        if self._git.settings and "\0loopty.branches" not in self._git.settings:
            return False
        try:
            return self._git.run("config", "--type=bool", "--get", "loopty.branches").strip() == "true"
        except GitError:
            return False
