"""The user's git repository: loopty reads anything, adds commits and refs, and touches nothing else."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from loopty.domain.access import is_clean_path
from loopty.domain.errors import Misuse
from loopty.domain.proposal import Edits
from loopty.engine.protocols import CommittedFiles
from loopty.git.command import END_OF_OPTIONS, GitCommand, GitError, read_line
from loopty.git.folders import GitFolders
from loopty.git.objects import REGULAR_FILES, GitObjects, ObjectStore, PathChange, TreeEntry
from loopty.git.packs import ObjectGraph, ObjectPacks
from loopty.git.patches import GitPatches
from loopty.git.settings import LIST_OPTIONS, program_settings, settings_text
from loopty.git.working_tree import WorkingTree, head_of
from loopty.kit.temporary_folder import temporary_folder

_LARGEST_INDEX = 4 << 20
_INDEXES: dict[tuple[str, str], bytes] = {}
"""The index that git made last for a whole commit, by git directory and commit."""


class Repository:
    """The commits of a repository and their files; its refs, patches and working tree are parts of their own.

    Filters run only where git reads or writes files of the user's own commits (`check_out`, and the working tree's
    `snapshot` and `apply`). What the repository's own configuration chooses is not used before `allow_programs`.
    In the repository of a stranger (`is_own` false) git knows none of the user's programs, so none can be chosen.
    """

    def __init__(self, folders: GitFolders, is_own: bool = True) -> None:
        self.folders = folders
        self.top = folders.top
        self.git = git = GitCommand(folders.git_dir, is_own)
        self._allows_programs = not is_own  # its configuration was written by loopty
        self.graph = ObjectGraph(git, folders.common_dir / "objects")
        content_session, size_session = (
            git.open_session("cat-file", "--batch"),
            git.open_session("cat-file", "--batch-check"),
        )
        self.packs = ObjectPacks(git, self.graph)
        self._store = ObjectStore(content_session, size_session, self.graph)
        self._objects = GitObjects(self._store)
        self.refs = GitRefs(git, self._store.name_of_ref)
        self.patches = GitPatches(git, self._objects)
        self.working_tree = WorkingTree(git, folders.top, self._refuse_programs)

    @classmethod
    def open(cls, start: Path) -> Repository:
        """Open the repository that contains this directory. Raises Misuse when there is none."""
        return cls(GitFolders.find(start))

    def program_settings(self) -> dict[str, str]:
        """Return the settings of the repository's own configuration that choose programs or servers, by key."""
        self.git.settings = self.git.run(*LIST_OPTIONS)
        return program_settings(self.git.settings)

    def allow_programs(self) -> None:
        """Let git use the programs and servers that the repository's own configuration chooses."""
        self._allows_programs = True
        self.git.allow_servers()

    def _refuse_programs(self) -> None:
        if not self._allows_programs and (settings := self.program_settings()):
            raise Misuse(
                f"the git configuration of this repository chooses what git runs on its files "
                f"({settings_text(settings)}): allow it with `loopty config trust`, or remove it from "
                f"{self.folders.git_dir / 'config'}"
            )

    def restore_with(self, restore: Callable[[str], bool]) -> None:
        """Let this function bring commits that this clone lacks; false if no one has them."""
        self._store.restore = restore

    def require_commit(self, commit: str) -> None:
        """Bring the commit here, where another clone made it. Raises GitError where nobody has it."""
        self._objects.tree_of(commit)

    def parents(self, commit: str) -> list[str]:
        """Return the parents of a commit."""
        lines = self._store.read(commit).partition(b"\n\n")[0].decode(errors="replace").splitlines()
        return [line.removeprefix("parent ") for line in lines if line.startswith("parent ")]

    def head(self) -> CommittedFiles:
        return head_of(self.git)

    def commit(self, parent: str, edits: Edits, modes: Mapping[str, TreeEntry], message: str) -> CommittedFiles:
        """Commit the parent's files with these edits: new content by path, None deletes. No branch is made."""
        with _faults_told():
            return self._objects.commit(parent, edits, modes, message)

    def transplant(self, base: str, commit: str, message: str) -> tuple[str, str]:
        """Commit the whole change from base to commit as one commit; returns it and its parent.

        The parent is HEAD if HEAD has the base's version of every changed file, else the base.
        """
        changes, head = self.changes(base, commit), self.head().commit
        entries = self.entries(head, [change.path for change in changes])
        if any(entries.get(change.path) != change.before for change in changes):
            tree = f"{commit}^{{tree}}"
            return self.git.run("commit-tree", "-p", base, "-m", message, END_OF_OPTIONS, tree).strip(), base
        edits = {change.path: self.blob(change.after.blob) if change.after else None for change in changes}
        modes = {change.path: change.after for change in changes if change.after}
        return self.commit(head, edits, modes, message).commit, head

    def join_commits(self, parents: Sequence[str], message: str, known_id: str) -> str:
        """Write a commit without files that has these parents. It is dated 1970: see `NodeRefs`."""
        with _faults_told():
            return self._objects.join(parents, message, known_id)

    @functools.lru_cache(maxsize=16)  # noqa: B019 - one repository per process
    def files(self, commit: str, below: tuple[str, ...] = ()) -> Mapping[str, TreeEntry]:
        """Return a commit's files by path, all or those at or below these paths, with links and submodules."""
        files = {
            path: entry for start in below or ("",) for path, entry in self._objects.files_below(commit, start)
        }
        if len(below) > 1:  # git's order, in whatever order the paths are given: seeded choices depend on it
            return dict(sorted(files.items(), key=lambda item: os.fsencode(item[0])))
        return files

    def files_up_to(self, commit: str, limit_bytes: int) -> list[str]:
        """List the regular files of a commit that are not larger than this limit."""
        files = {path: entry.blob for path, entry in self.files(commit).items() if entry.mode in REGULAR_FILES}
        sizes = self._store.sizes(files.values())
        return [path for path, blob in files.items() if sizes[blob] <= limit_bytes]

    def tree(self, commit: str) -> str:
        """Return the name of the tree of a commit: commits with the same files have the same one."""
        return self._objects.tree_of(commit)

    def entries(self, commit: str, paths: Iterable[str]) -> Mapping[str, TreeEntry]:
        """Return the entries at exactly these paths: files, links, submodules and directories."""
        entries = ((path, self._objects.entry(commit, path)) for path in paths)
        return {path: entry for path, entry in entries if entry}

    def has_commit(self, commit: str) -> bool:
        """Say whether this commit, with its tree, is in the repository."""
        try:
            self.git.run("cat-file", "-e", f"{commit}^{{tree}}")
        except GitError:
            return False
        return True

    def commits_here(self, names: Iterable[str]) -> list[str]:
        """Pick those of these commits that are in the repository; git asks no server for them."""
        if not (question := "".join(f"{name}\n" for name in names)):
            return []
        answer = self.git.run("cat-file", "--batch-check", stdin=question.encode(), env={"GIT_NO_LAZY_FETCH": "1"})
        words = (line.split() for line in answer.splitlines())
        return [name for name, kind, *_ in words if kind == "commit"]

    def content(self, commit: str, path: str) -> bytes:
        entry = self._objects.entry(commit, path)
        if entry is None:
            raise GitError("cat-file", f"there is no {path} in {commit}")
        return self._store.read(entry.blob)

    def text(self, commit: str, path: str) -> str | None:
        """Return the text of a file, or None if it is not text."""
        try:
            return self.content(commit, path).decode()
        except UnicodeDecodeError:
            return None

    def blob(self, blob: str) -> bytes:
        return self._store.read(blob)

    def changes(self, before: str, after: str) -> list[PathChange]:
        """List the differences between two commits, file by file."""
        return sorted(self._objects.changes(before, after), key=lambda change: os.fsencode(change.path))

    def tree_changes(self, before: str, after: str) -> list[PathChange]:
        """List the differences between two trees, file by file."""
        return list(self._objects.tree_changes(before, after))

    def check_out(self, commit: str, paths: Iterable[str], into: Path) -> None:
        """Write these files of one of the user's commits into an empty directory, through the user's filters."""
        self._refuse_programs()
        with temporary_folder("index") as folder:
            index = Path(folder, "index")
            env = {"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(into)}
            if known := _INDEXES.get((str(self.folders.git_dir), commit)):
                index.write_bytes(known)
            else:
                self.git.run("read-tree", END_OF_OPTIONS, commit, env=env)
                self._keep_index(commit, index)
            names = "".join(f"{path}\0" for path in paths).encode(errors="surrogateescape")
            self.git.run("checkout-index", "--quiet", "-z", "--stdin", env=env, cwd=into, stdin=names)

    def _keep_index(self, commit: str, index: Path) -> None:
        """Remember the index of a commit: most drafts of a run begin with the same one."""
        if index.stat().st_size <= _LARGEST_INDEX:
            _INDEXES.clear()
            _INDEXES[str(self.folders.git_dir), commit] = index.read_bytes()

    def write_files(self, commit: str, paths: Iterable[str], into: Path) -> None:
        """Write these regular files of any commit into a directory, as they are stored: no filter runs."""
        for path, entry in self.entries(commit, paths).items():
            if not is_clean_path(path) or entry.mode not in REGULAR_FILES:
                raise GitError("cat-file", f"{path!r} of {commit} is not a regular file that stays inside")
            file = into / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self.blob(entry.blob))
            if entry.mode == REGULAR_FILES[1]:
                file.chmod(file.stat().st_mode | 0o111)


@contextlib.contextmanager
def _faults_told() -> Iterator[None]:
    """Tell the user why nothing can be written. Raises Misuse."""
    try:
        yield
    except OSError as error:
        raise Misuse(
            f"cannot write to the repository ({error.strerror}): free some space, or correct its permissions"
        ) from None


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
        with contextlib.suppress(EOFError):
            question = f"start\n{change}\nprepare\ncommit\n".encode()
            return self._session.ask(question, lambda stream: [read_line(stream) for _ in expected]) == expected
        return False

    def branch_tip(self, branch: str) -> str | None:
        """Return the commit of a branch, or None if there is no such branch."""
        return self.tip(f"refs/heads/{branch}")

    def tip(self, ref: str) -> str | None:
        """Return the object that a ref names, or None if there is no such ref."""
        return self._name_of_ref(ref)

    def names_below(self, prefix: str) -> list[str]:
        """List the refs below this prefix, which ends with a slash."""
        return self._git.run("for-each-ref", "--format=%(refname)", END_OF_OPTIONS, prefix).splitlines()

    def first_parents(self, commit: str, most: int | None = None) -> Iterator[list[str]]:
        """Yield the parents of this commit, of its first parent, and so on, of so many at most."""
        limit = () if most is None else (f"--max-count={most}",)
        options = ("--first-parent", "--parents", *limit, END_OF_OPTIONS, commit)
        return (line.split()[1:] for line in self._git.run("rev-list", *options).splitlines())

    def branches(self, pattern: str) -> list[str]:
        """List the names of the branches that match."""
        name = "--format=%(refname:lstrip=2)"
        return self._git.run("for-each-ref", name, END_OF_OPTIONS, f"refs/heads/{pattern}").splitlines()

    @functools.cached_property
    def wants_branches(self) -> bool:
        """Say whether the user wants a branch for each node: `git config loopty.branches true`."""
        if self._git.settings and "\0loopty.branches" not in self._git.settings:
            return False
        try:
            return self._git.run("config", "--type=bool", "--get", "loopty.branches").strip() == "true"
        except GitError:
            return False
