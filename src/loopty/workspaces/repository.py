"""The user's git repository: loopty reads anything, adds commits and refs, and touches nothing else."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from loopty.domain.access import is_clean_path
from loopty.domain.errors import Misuse
from loopty.domain.git_names import ObjectName
from loopty.domain.proposal import Edits
from loopty.engine.protocols import CommittedFiles
from loopty.workspaces.git_folders import SAFE_CONFIG, GitFolders, environment_without_git, is_work_folder
from loopty.workspaces.git_objects import REGULAR_FILES, GitObjects, PathChange, TreeEntry
from loopty.workspaces.git_programs import LIST_OPTIONS, program_settings, settings_text
from loopty.workspaces.git_session import GitError, GitSession, read_line
from loopty.workspaces.object_store import ObjectStore

_NO_USER_CONFIG = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
}
"""For a stranger's repository: its `.gitattributes` may name programs, but only the user's files define them."""
_IDENTITY = {
    "GIT_AUTHOR_NAME": "loopty",
    "GIT_AUTHOR_EMAIL": "loopty@localhost",
    "GIT_COMMITTER_NAME": "loopty",
    "GIT_COMMITTER_EMAIL": "loopty@localhost",
}
_NO_PROGRAMS = ("--no-ext-diff", "--no-textconv")
_PATCH = (
    *("--patch", *_NO_PROGRAMS, "--no-color", "--binary", "--full-index", "--no-renames", "--src-prefix=a/"),
    *("--dst-prefix=b/", "--diff-algorithm=myers", "--unified=3", "--inter-hunk-context=0", "--indent-heuristic"),
)
_END_OF_PATCH = b"= end of patch ="
"""Git echoes a line that names no object at once, and no line of a patch begins like this."""
_PATCH_CONFIG = ("core.compression=6", "diff.suppressBlankEmpty=false")
# No reuse of packed objects, and one thread: the bytes must not depend on how the user's repository is packed.
_PACK = ("--stdout", "--revs", "--no-reuse-object", "--window=0", "--threads=1", "--compression=6", "--quiet")
# Foreign objects are checked. Zero-padded modes of old gits are harmless and occur in good repositories.
_FETCH_CONFIG = ("fetch.fsckObjects=true", "fetch.fsck.zeroPaddedFilemode=ignore")
_PROTOCOLS = "GIT_ALLOW_PROTOCOL"
"""Limits how git fetches, whatever a configuration allows: in a partial clone it fetches what is missing."""
SUBMODULE = "160000"
_END_OF_OPTIONS = "--end-of-options"
"""Before every value that a record or a person gives: what follows is never read as an option."""
_NODE_BRANCH_PREFIX = "loopty-"
_BASELINE, _WINNER = "refs/heads/baseline", "refs/heads/winner"


class Repository:
    """Runs git in subprocesses, with explicit directories, without hooks and fsmonitor.

    Filters run only where git reads or writes files of the user's own commits (`snapshot`, `check_out`, `apply`).
    What the repository's own configuration chooses is not used before `allow_programs`.
    In the repository of a stranger (`is_own` false) git knows none of the user's programs, so none can be chosen.
    """

    def __init__(self, folders: GitFolders, is_own: bool = True) -> None:
        self.folders = folders
        self.top = folders.top
        self._git_dir = folders.git_dir
        self._allows_programs = not is_own  # its configuration was written by loopty
        self._settings = ""
        """The configuration as it was last listed."""
        self._env = {
            **environment_without_git(os.environ),
            **({} if is_own else _NO_USER_CONFIG),
            **_IDENTITY,
            "GIT_DIR": str(folders.git_dir),
            "GIT_TERMINAL_PROMPT": "0",
            _PROTOCOLS: "" if is_own else "file",
            "LC_ALL": "C.UTF-8",
        }
        content_session, size_session = (
            self._open_session("cat-file", "--batch"),
            self._open_session("cat-file", "--batch-check"),
        )
        self._store = ObjectStore(content_session, size_session, self._object_folder)
        self._objects = GitObjects(self._store)
        self._diff_session = self._open_session("diff-tree", "--stdin", *_PATCH, config=_PATCH_CONFIG)
        # No reflog: what a run held before is not wanted any more.
        self._ref_session = self._open_session("update-ref", "--stdin", config=("core.logAllRefUpdates=false",))

    @classmethod
    def open(cls, start: Path) -> Repository:
        """The repository that contains this directory. Raises Misuse when there is none."""
        return cls(GitFolders.find(start))

    def program_settings(self) -> dict[str, str]:
        """The settings of the repository's own configuration that choose programs or servers, by key."""
        self._settings = self._git(*LIST_OPTIONS)
        return program_settings(self._settings)

    def allow_programs(self) -> None:
        """Let git use the programs and servers that the repository's own configuration chooses."""
        self._allows_programs = True
        self._env.pop(_PROTOCOLS)

    def _refuse_programs(self) -> None:
        if not self._allows_programs and (settings := self.program_settings()):
            raise Misuse(
                f"the git configuration of this repository chooses what git runs on its files "
                f"({settings_text(settings)}): allow it with `loopty trust`, or remove it from "
                f"{self._git_dir / 'config'}"
            )

    def head(self) -> CommittedFiles:
        try:
            return self._resolve("HEAD")
        except GitError:
            raise Misuse("the repository has no commit yet: commit once, so that there is a baseline") from None

    def foreign_state_path(self) -> str | None:
        """A tracked path in a folder that some file system takes for loopty's own, or None."""
        # The name begins with a dot, or with a character beyond ASCII that the file system ignores.
        starts = (f":(top,glob){start}{end}" for start in (".", "[^ -~]") for end in ("*", "*/**"))
        paths = self._git("ls-files", "-z", "--", *starts).split("\0")
        return next((path for path in paths if is_work_folder(path.partition("/")[0])), None)

    def ignored_paths(self) -> list[str]:
        """What git ignores in the working tree; a directory that is ignored as a whole is one path."""
        return self._working_tree(
            "--others", "--ignored", "--exclude-standard", "--directory", "--no-empty-directory"
        )

    def working_paths(self) -> list[str]:
        """The files that a snapshot of the working tree would hold."""
        return self._working_tree("--cached", "--others", "--exclude-standard", "--deduplicate")

    def _working_tree(self, *options: str) -> list[str]:
        env = {"GIT_WORK_TREE": str(self.top)}
        listed = self._git("ls-files", "-z", *options, "--", ".", env=env, cwd=self.top).split("\0")
        return [path.rstrip("/") for path in listed if path]

    def snapshot(self, message: str) -> CommittedFiles:
        """Commit the working tree on top of HEAD; returns HEAD itself when nothing is uncommitted.

        Works on a copy of the index: the user's index and HEAD stay unchanged.
        """
        self._refuse_programs()
        head = self.head()
        with tempfile.TemporaryDirectory(prefix="loopty-index-") as folder:
            index = Path(folder, "index")
            if (self._git_dir / "index").exists():
                # With its time: git compares it with those of the files to know which of them it must read again.
                shutil.copy2(self._git_dir / "index", index)
            env = {"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(self.top)}
            try:
                self._add_all(env)
            except GitError as error:
                why = error.message.splitlines()[0]
                raise Misuse(
                    f"git cannot read the working tree ({why}): fix, ignore or remove what it names"
                ) from None
            tree = self._git("write-tree", env=env).strip()
        if tree == head.tree:
            return head
        commit = self._git("commit-tree", "-p", head.commit, "-m", message, _END_OF_OPTIONS, tree).strip()
        return CommittedFiles(ObjectName(commit), ObjectName(tree))

    def _add_all(self, env: Mapping[str, str]) -> None:
        """Add the working tree to an index; of a submodule its commit, as it is checked out."""
        listing = self._git("ls-files", "--stage", "-z", env=env, cwd=self.top)
        rows = (row.partition("\t") for row in listing.split("\0"))
        submodules = [path for entry, _, path in rows if entry.startswith(f"{SUBMODULE} ")]
        # To know whether files in a submodule have changed, `git add` would run filters of its configuration.
        others = [f":(top,exclude,literal){path}" for path in submodules]
        self._git("add", "--all", "--", ".", *others, env=env, cwd=self.top)
        if submodules:
            paths = "".join(f"{path}\0" for path in submodules).encode(errors="surrogateescape")
            self._git("update-index", "--add", "--remove", "-z", "--stdin", stdin=paths, env=env, cwd=self.top)

    def commit(self, parent: str, edits: Edits, modes: Mapping[str, TreeEntry], message: str) -> CommittedFiles:
        """Commit the parent's files with these edits: new content by path, None deletes. No branch is made."""
        try:
            return self._objects.commit(parent, edits, modes, message)
        except OSError as error:
            raise Misuse(
                f"cannot write to the repository ({error.strerror}): free some space, or correct its permissions"
            ) from None

    def transplant(self, base: str, commit: str, message: str) -> tuple[str, str]:
        """Commit the whole change from base to commit as one commit; returns it and its parent.

        The parent is HEAD if HEAD has the base's version of every changed file, else the base.
        """
        changes, head = self.changes(base, commit), self.head().commit
        entries = self.entries(head, [change.path for change in changes])
        if any(entries.get(change.path) != change.before for change in changes):
            tree = f"{commit}^{{tree}}"
            return self._git("commit-tree", "-p", base, "-m", message, _END_OF_OPTIONS, tree).strip(), base
        edits = {change.path: self.blob(change.after.blob) if change.after else None for change in changes}
        modes = {change.path: change.after for change in changes if change.after}
        return self.commit(head, edits, modes, message).commit, head

    def write_bundle(self, baseline: str, tree: str, target: Path) -> None:
        """Write two trees as a bundle of two commits, one on top of the other, without the user's history.

        The same trees give the same bytes.
        """
        start = self._commit_undated(baseline, "baseline")
        end = self._commit_undated(tree, "winner", "-p", start)
        head = "# v2 git bundle" if len(tree) == 40 else "# v3 git bundle\n@object-format=sha256"
        with target.open("wb") as file:
            file.write(f"{head}\n{end} HEAD\n{start} {_BASELINE}\n{end} {_WINNER}\n\n".encode())
            file.flush()
            self._git_bytes("pack-objects", *_PACK, stdin=f"{end}\n".encode(), into=file)

    def _commit_undated(self, tree: str, message: str, *parents: str) -> str:
        dates = {"GIT_AUTHOR_DATE": "@0 +0000", "GIT_COMMITTER_DATE": "@0 +0000"}
        encoding = ("i18n.commitEncoding=UTF-8",)
        options = (*parents, "-m", message, _END_OF_OPTIONS)
        return self._git("commit-tree", *options, tree, env=dates, config=encoding).strip()

    @classmethod
    def from_bundle(cls, bundle: Path, top: Path) -> tuple[Repository, CommittedFiles, CommittedFiles]:
        """Make a repository from a bundle of `write_bundle`, at the baseline; returns it, baseline and winner.

        Raises GitError when the bundle is not valid or files are in the way.
        """
        with bundle.open("rb") as file:
            kind = "sha256" if b"\n@object-format=sha256\n" in file.read(64) else "sha1"
        repository = cls(GitFolders(top, top / ".git", top / ".git"), is_own=False)
        repository._git(
            "init", "--quiet", "--template=", "--initial-branch=main", f"--object-format={kind}", cwd=top
        )
        refspecs = (f"{ref}:{ref}" for ref in (_BASELINE, _WINNER))
        quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-gc")
        source = (_END_OF_OPTIONS, str(bundle.resolve()))
        repository._git("fetch", *quiet, *source, *refspecs, config=_FETCH_CONFIG)
        branch, work_tree = _BASELINE.removeprefix("refs/heads/"), {"GIT_WORK_TREE": str(top)}
        repository._git("checkout", "--quiet", branch, "--", env=work_tree, cwd=top)
        return repository, repository._resolve(_BASELINE), repository._resolve(_WINNER)

    def _resolve(self, revision: str) -> CommittedFiles:
        # One by one: for several, git repeats --end-of-options among the answers.
        names = (
            self._git("rev-parse", "--verify", _END_OF_OPTIONS, f"{revision}^{{{kind}}}").strip()
            for kind in ("commit", "tree")
        )
        return CommittedFiles(*map(ObjectName, names))

    def tree_with_patch(self, tree: str, patch: bytes) -> str | None:
        """The tree with this patch applied, or None when the patch does not apply."""
        if not patch:
            return tree
        with tempfile.TemporaryDirectory(prefix="loopty-index-") as folder:
            env = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
            self._git("read-tree", _END_OF_OPTIONS, tree, env=env)
            try:
                self._git("apply", "--cached", "--binary", "--whitespace=nowarn", "-", stdin=patch, env=env)
            except GitError:
                return None
            return self._git("write-tree", env=env).strip()

    def make_branch(self, name: str, commit: str, move: bool = False) -> None:
        """Make a branch. An existing branch must be at this commit, unless `move` is set. Raises Misuse."""
        # Our own names are simple; only `git branch` knows which other names are valid.
        if not move and name.startswith(_NODE_BRANCH_PREFIX) and self.swap_ref(f"refs/heads/{name}", commit, None):
            return
        try:
            self._git("branch", "--no-track", *(("--force",) if move else ()), _END_OF_OPTIONS, name, commit)
        except GitError as error:
            if move or self.tip(name) != commit:
                raise Misuse(f"cannot make branch {name}: {error.message.splitlines()[0]}") from None

    def swap_ref(self, ref: str, commit: str | None, before: str | None) -> bool:
        """Let a ref name this commit, or remove it, if it names `before` now; None: there is none. Else False."""
        expected = [b"start: ok", b"prepare: ok", b"commit: ok"]
        change = f"delete {ref} {before}" if commit is None else f"update {ref} {commit} {before}"
        change = change if before else f"create {ref} {commit}"
        with contextlib.suppress(EOFError):
            question = f"start\n{change}\nprepare\ncommit\n".encode()
            return (
                self._ref_session.ask(question, lambda stream: [read_line(stream) for _ in expected]) == expected
            )
        return False

    def tip(self, branch: str) -> str | None:
        """The commit of a branch, or None when there is no such branch."""
        return self.ref_tip(f"refs/heads/{branch}")

    def ref_tip(self, ref: str) -> str | None:
        """The object that a ref names, or None when there is no such ref."""
        return self._store.name_of_ref(ref)

    def refs(self, prefix: str) -> list[str]:
        """The refs below this prefix, which ends with a slash."""
        return self._git("for-each-ref", "--format=%(refname)", _END_OF_OPTIONS, prefix).splitlines()

    def join_commits(self, parents: Sequence[str], message: str, known_id: str) -> str:
        """Write a commit without files that has these parents. It is dated 1970: see `NodeRefs`."""
        return self._objects.join(parents, message, known_id)

    def first_parents(self, commit: str) -> Iterator[list[str]]:
        """The parents of this commit, of its first parent, and so on."""
        lines = self._git("rev-list", "--first-parent", "--parents", _END_OF_OPTIONS, commit).splitlines()
        return (line.split()[1:] for line in lines)

    def unused_branches(self, pattern: str) -> dict[str, str]:
        """The branches that match and that no working tree has checked out, with their commits."""
        line = "--format=%(refname:lstrip=2) %(objectname) %(worktreepath)"
        lines = self._git("for-each-ref", line, _END_OF_OPTIONS, f"refs/heads/{pattern}").splitlines()
        found = (line.split(" ", 2) for line in lines)
        return {name: commit for name, commit, worktree in found if not worktree}

    def existing_objects(self, names: Iterable[str]) -> list[str]:
        """Those of these objects that exist."""
        question = "".join(f"{name}\n" for name in dict.fromkeys(names)).encode()
        lines = self._git("cat-file", "--batch-check", stdin=question).splitlines() if question else []
        return [line.split()[0] for line in lines if not line.endswith(" missing")]

    def reachable_objects(self, commits: Iterable[str], everything_except: Sequence[str] = ()) -> Iterator[str]:
        """What these commits reach: commits, trees and blobs. An object that is missing reaches nothing.

        With `everything_except`, also what refs, reflogs, indexes and working trees reach, without these refs.
        """
        tips = "".join(f"{commit}\n" for commit in commits).encode()
        more = (*(f"--exclude={ref}" for ref in everything_except), "--all", "--reflog", "--indexed-objects")
        options = ("--objects", "--no-object-names", "--missing=allow-any", "--stdin")
        argv = _git_command("rev-list", *options, *(more if everything_except else ()))
        with tempfile.TemporaryFile() as question:
            question.write(tips)
            question.seek(0)
            env = {**self._env, "GIT_NO_LAZY_FETCH": "1"}
            with subprocess.Popen(
                argv, stdin=question, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=self._git_dir
            ) as child:
                assert child.stdout
                assert child.stderr
                for line in child.stdout:
                    yield line.decode().strip()
                message = child.stderr.read().decode(errors="replace").strip()
        if child.returncode:
            raise GitError("rev-list", message)

    def loose_object(self, name: str) -> Path:
        """Where git keeps an object that is in no pack."""
        return self._object_folder() / name[:2] / name[2:]

    @functools.cached_property
    def wants_branches(self) -> bool:
        """Whether the user wants a branch for each node: `git config loopty.branches true`."""
        if self._settings and "\0loopty.branches" not in self._settings:
            return False
        try:
            return self._git("config", "--type=bool", "--get", "loopty.branches").strip() == "true"
        except GitError:
            return False

    def branches(self, pattern: str) -> list[str]:
        """The names of the branches that match."""
        name = "--format=%(refname:lstrip=2)"
        return self._git("for-each-ref", name, _END_OF_OPTIONS, f"refs/heads/{pattern}").splitlines()

    @functools.lru_cache(maxsize=16)  # noqa: B019 - one repository per process
    def files(self, commit: str, below: tuple[str, ...] = ()) -> Mapping[str, TreeEntry]:
        """The files of a commit by path, all or those at or below these paths, including links and submodules."""
        files = {
            path: entry for start in below or ("",) for path, entry in self._objects.files_below(commit, start)
        }
        if len(below) > 1:  # git's order, in whatever order the paths are given: seeded choices depend on it
            return dict(sorted(files.items(), key=lambda item: os.fsencode(item[0])))
        return files

    def files_up_to(self, commit: str, limit_bytes: int) -> list[str]:
        """The regular files of a commit that are not larger than this limit."""
        files = {path: entry.blob for path, entry in self.files(commit).items() if entry.mode in REGULAR_FILES}
        sizes = self._store.sizes(files.values())
        return [path for path, blob in files.items() if sizes[blob] <= limit_bytes]

    def entries(self, commit: str, paths: Iterable[str]) -> Mapping[str, TreeEntry]:
        """The entries at exactly these paths: files, links, submodules and directories."""
        entries = ((path, self._objects.entry(commit, path)) for path in paths)
        return {path: entry for path, entry in entries if entry}

    def has_commit(self, commit: str) -> bool:
        """Whether this commit, with its tree, is in the repository."""
        try:
            self._git("cat-file", "-e", f"{commit}^{{tree}}")
        except GitError:
            return False
        return True

    def content(self, commit: str, path: str) -> bytes:
        entry = self._objects.entry(commit, path)
        if entry is None:
            raise GitError("cat-file", f"there is no {path} in {commit}")
        return self._store.read(entry.blob)

    def blob(self, blob: str) -> bytes:
        return self._store.read(blob)

    def changes(self, before: str, after: str) -> list[PathChange]:
        """The differences between two commits, file by file."""
        return sorted(self._objects.changes(before, after), key=lambda change: os.fsencode(change.path))

    def diff(self, before: str, after: str) -> str:
        """The difference between two commits, for people."""
        return self.patch(before, after).decode(errors="replace")

    def patch(self, before: str, after: str) -> bytes:
        """The difference between two commits for `git apply`, independent of the user's diff settings."""
        pair = f"{self._objects.tree_of(before)} {self._objects.tree_of(after)}\n".encode()

        def read_answer(stream: IO[bytes]) -> bytes:
            lines = []
            while (next_line := read_line(stream)) != _END_OF_PATCH:
                lines.append(next_line + b"\n")
            return b"".join(lines[1:])  # the first names the two trees

        try:
            return self._diff_session.ask(pair + _END_OF_PATCH + b"\n", read_answer)
        except EOFError:
            raise GitError(
                "diff-tree", f"ended before it returned the difference between {before} and {after}"
            ) from None

    def check_out(self, commit: str, paths: Iterable[str], into: Path) -> None:
        """Write these files of one of the user's commits into an empty directory, through the user's filters."""
        self._refuse_programs()
        with tempfile.TemporaryDirectory(prefix="loopty-index-") as folder:
            env = {"GIT_INDEX_FILE": str(Path(folder, "index")), "GIT_WORK_TREE": str(into)}
            self._git("read-tree", _END_OF_OPTIONS, commit, env=env)
            names = "".join(f"{path}\0" for path in paths).encode(errors="surrogateescape")
            self._git("checkout-index", "--quiet", "-z", "--stdin", env=env, cwd=into, stdin=names)

    def ignored_files(self, folder: Path, paths: Sequence[str]) -> list[str]:
        """Those of these paths that git would ignore in this folder, by its own rules and the user's."""
        if not paths:
            return []
        env = {"GIT_WORK_TREE": str(folder), "GIT_INDEX_FILE": os.devnull}
        names = "".join(f"{path}\0" for path in paths).encode(errors="surrogateescape")
        try:
            found = self._git("check-ignore", "--no-index", "-z", "--stdin", env=env, cwd=folder, stdin=names)
        except GitError as error:
            if error.message:  # without a message, it only says that none is ignored
                raise
            return []
        return found.split("\0")[:-1]

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

    def apply(self, patch: bytes, dry_run: bool = False) -> None:
        """Apply a patch to the user's working tree; only `loopty apply --patch` does this, on request."""
        self._refuse_programs()
        flags = ("--check",) if dry_run else ()
        env = {"GIT_WORK_TREE": str(self.top)}
        self._git("apply", "--binary", *flags, "-", stdin=patch, env=env, cwd=self.top)

    def _open_session(self, *args: str, config: Iterable[str] = ()) -> GitSession:
        return GitSession(_git_command(*args, config=config), self._env, self._git_dir)

    def _object_folder(self) -> Path:
        return self.folders.common_dir / "objects"

    def _git(self, *args: str, **options: object) -> str:
        return self._git_bytes(*args, **options).decode(errors="surrogateescape")  # type: ignore[arg-type]

    def _git_bytes(
        self,
        *args: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        into: IO[bytes] | None = None,
        config: Iterable[str] = (),
    ) -> bytes:
        result = subprocess.run(
            _git_command(*args, config=config),
            input=stdin,
            stdout=into or subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**self._env, **(env or {})},
            cwd=cwd or self._git_dir,
            umask=0o022,
            process_group=0,  # Ctrl-C is for the loop, which lets running commands finish
        )
        if result.returncode:
            raise GitError(args[0], result.stderr.decode(errors="replace").strip())
        return result.stdout or b""


def _git_command(*args: str, config: Iterable[str] = ()) -> list[str]:
    return ["git", *SAFE_CONFIG, *(part for setting in config for part in ("-c", setting)), *args]
