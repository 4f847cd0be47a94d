"""The user's working tree: loopty reads it as one commit, and writes to it only on request."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from loopty.domain.access import ObjectName
from loopty.domain.errors import Misuse
from loopty.engine.protocols import CommittedFiles
from loopty.git.command import END_OF_OPTIONS, GitCommand, GitError
from loopty.git.folders import is_work_folder
from loopty.git.objects import SUBMODULE
from loopty.kit.contents import write_atomically
from loopty.kit.temporary_folder import temporary_folder

_LITERAL, _ESCAPED = re.compile(r"[\\*?\[ ]"), r"\\\g<0>"
"""What a pattern of git takes for something else, and how it is written."""


class WorkingTree:
    """The files that are checked out at the top of a repository."""

    def __init__(self, git: GitCommand, top: Path, refuse_programs: Callable[[], None]) -> None:
        """`refuse_programs` raises Misuse where the configuration chooses programs that nobody has allowed."""
        self._git = git
        self.top = top
        self._refuse_programs = refuse_programs

    def foreign_state_path(self) -> str | None:
        """Find a tracked path in a folder that some file system takes for loopty's own, or None."""
        # The name begins with a dot, or with a character beyond ASCII that the file system ignores.
        starts = (f":(top,glob){start}{end}" for start in (".", "[^ -~]") for end in ("*", "*/**"))
        paths = self._git.run("ls-files", "-z", "--", *starts).split("\0")
        return next((path for path in paths if is_work_folder(path.partition("/")[0])), None)

    def paths_that_git_ignores(self) -> list[str]:
        """List what git ignores in the working tree; a directory that is ignored as a whole is one path."""
        return self._listing("--others", "--ignored", "--exclude-standard", "--directory", "--no-empty-directory")

    def paths(self) -> list[str]:
        """List the files that a snapshot of the working tree would hold."""
        return self._listing("--cached", "--others", "--exclude-standard", "--deduplicate")

    def untracked_paths(self) -> list[str]:
        """List the files that git neither tracks nor ignores."""
        return self._listing("--others", "--exclude-standard")

    def ignore_here(self, folders: Sequence[str]) -> None:
        """Let git ignore these folders in this clone alone, by a file that it never commits."""
        common = self._git.run("rev-parse", "--path-format=absolute", "--git-common-dir").strip()
        path = Path(common, "info/exclude")  # git would follow links in it, where it is asked for this path
        if path.parent.is_symlink() or path.is_symlink() or (path.exists() and not path.is_file()):
            raise Misuse(f"{path} is no file, and a link may lead anywhere: make it a file")
        before = path.read_text() if path.exists() else ""
        plain = (folder for folder in folders if folder.isprintable())  # a line break would begin another pattern
        lines = "".join(f"/{_LITERAL.sub(_ESCAPED, folder)}/\n" for folder in plain)
        text = before + ("\n" if before and not before.endswith("\n") else "") + lines
        write_atomically(path.parent, path.name, text.encode())

    def _listing(self, *options: str) -> list[str]:
        env = {"GIT_WORK_TREE": str(self.top)}
        listed = self._git.run("ls-files", "-z", *options, "--", ".", env=env, cwd=self.top).split("\0")
        return [path.rstrip("/") for path in listed if path]

    def snapshot(self, message: str) -> CommittedFiles:
        """Commit the working tree on top of HEAD; returns HEAD itself when nothing is uncommitted.

        Works on a copy of the index: the user's index and HEAD stay unchanged.
        """
        self._refuse_programs()
        head = head_of(self._git)
        with temporary_folder("index") as folder:
            index = Path(folder, "index")
            if (self._git.git_dir / "index").exists():
                # With its time: git compares it with those of the files to know which of them it must read again.
                shutil.copy2(self._git.git_dir / "index", index)
            env = {"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(self.top)}
            try:
                self._add_all(env)
            except GitError as error:
                why = error.message.splitlines()[0]
                raise Misuse(
                    f"git cannot read the working tree ({why}): fix, ignore or remove what it names"
                ) from None
            tree = self._git.run("write-tree", env=env).strip()
        if tree == head.tree:
            return head
        commit = self._git.run("commit-tree", "-p", head.commit, "-m", message, END_OF_OPTIONS, tree).strip()
        return CommittedFiles(ObjectName(commit), ObjectName(tree))

    def _add_all(self, env: Mapping[str, str]) -> None:
        """Add the working tree to an index; of a submodule its commit, as it is checked out."""
        listing = self._git.run("ls-files", "--stage", "-z", env=env, cwd=self.top)
        rows = (row.partition("\t") for row in listing.split("\0"))
        submodules = [path for entry, _, path in rows if entry.startswith(f"{SUBMODULE} ")]
        # To know whether files in a submodule have changed, `git add` would run filters of its configuration.
        others = [f":(top,exclude,literal){path}" for path in submodules]
        self._git.run("add", "--all", "--", ".", *others, env=env, cwd=self.top)
        if submodules:
            paths = "".join(f"{path}\0" for path in submodules).encode(errors="surrogateescape")
            self._git.run("update-index", "--add", "--remove", "-z", "--stdin", stdin=paths, env=env, cwd=self.top)

    def ignored_files(self, folder: Path, paths: Sequence[str]) -> list[str]:
        """Pick those of these paths that git would ignore in this folder, by its own rules and the user's."""
        if not paths:
            return []
        env = {"GIT_WORK_TREE": str(folder), "GIT_INDEX_FILE": os.devnull}
        names = "".join(f"{path}\0" for path in paths).encode(errors="surrogateescape")
        try:
            found = self._git.run("check-ignore", "--no-index", "-z", "--stdin", env=env, cwd=folder, stdin=names)
        except GitError as error:
            if error.message:  # without a message, it only says that none is ignored
                raise
            return []
        return found.split("\0")[:-1]

    def apply(self, patch: bytes, dry_run: bool = False) -> None:
        """Apply a patch to the user's working tree; only `loopty apply --patch` does this, on request."""
        self._refuse_programs()
        flags = ("--check",) if dry_run else ()
        env = {"GIT_WORK_TREE": str(self.top)}
        self._git.run("apply", "--binary", *flags, "-", stdin=patch, env=env, cwd=self.top)


def head_of(git: GitCommand) -> CommittedFiles:
    """Return the commit that is checked out. Raises Misuse when there is none."""
    try:
        return committed_files(git, "HEAD")
    except GitError:
        raise Misuse(
            "the repository has no commit yet: commit once, so that there is a "
            "baseline: git add -A && git commit -m baseline"
        ) from None


def committed_files(git: GitCommand, revision: str) -> CommittedFiles:
    """Return the commit and the tree of a revision. Raises GitError."""
    # One by one: for several, git repeats --end-of-options among the answers.
    commit, tree = (
        git.run("rev-parse", "--verify", END_OF_OPTIONS, f"{revision}^{{{kind}}}").strip()
        for kind in ("commit", "tree")
    )
    return CommittedFiles(ObjectName(commit), ObjectName(tree))
