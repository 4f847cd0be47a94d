"""Packs of loopty's own objects: what many nodes add is a few files, and what nothing reaches is left out.

New objects are files, as git writes them. Git packs them each time a run holds a hundred more commits, and at the
end of a session. Only what loopty wrote is packed, into packs with a name of their own; the user's objects, packs
and settings are not touched. A file goes once a pack has its object, so a kill at any instant leaves each object
in at least one place. Git reads, joins and removes these packs as it does its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from loopty.git.command import END_OF_OPTIONS, LOOPTY, GitCommand, GitError, git_argv
from loopty.kit.contents import deflate, write_atomically
from loopty.kit.records import Record
from loopty.kit.temporary_folder import temporary_top

_PREFIX = "loopty"
_COMMITS_PER_PACK = 100
"""A commit adds about five objects: as files of their own they would take 200 MB after 10,000 trials."""
_LINKS_TO_LOOK_AT = 1024
"""What a killed process left further back than this stays loose."""
_FEWEST = 50
"""Fewer loose objects than this are not worth a pack."""
_MANY_IN_A_FOLDER = 4
"""Git spreads loose objects evenly over 256 folders: with as many in one of them there are a thousand."""
_MOST_PACKS = 10
_FOLDERS = tuple(f"{number:02x}" for number in range(256))
"""In which git keeps loose objects, by the first byte of their names."""
_HARMLESS = (OSError, GitError)
"""Another process packs, the repository is read-only, the disk is full: the objects stay as they are."""
_GRACE_SECONDS = 600
"""Git dates a pack anew instead of writing an object that it holds: a commit that no ref holds yet may need it."""


class ObjectPack(Record):
    """A pack that loopty wrote."""

    path: Path
    """Of its `.pack` file."""
    size: int
    changed_at: float


class ObjectPacks:
    """Loopty's packs in one repository. Any number of processes may use them; one at a time changes them."""

    def __init__(self, git: GitCommand, graph: ObjectGraph) -> None:
        self._git = git
        self._graph = graph
        self._new_commits = 0
        self._packing: threading.Thread | None = None

    def after_commits(self, ref: str, count: int) -> None:
        """Pack in the background what this ref holds, once it holds so many commits more."""
        self._new_commits += count
        if self._new_commits >= _COMMITS_PER_PACK and not (self._packing and self._packing.is_alive()):
            self._new_commits = 0
            self._packing = threading.Thread(
                target=self._pack, args=(ref, _MOST_PACKS, 2 * _COMMITS_PER_PACK), daemon=True
            )
            self._packing.start()

    def finish_node(self, ref: str) -> None:
        """Pack what this and former verbs have added to the ref, if it is much."""
        with contextlib.suppress(OSError):
            if len(list((self._graph.folder() / "17").iterdir())) >= _MANY_IN_A_FOLDER:
                self._pack(ref, _MOST_PACKS)

    def finish(self, ref: str) -> None:
        """Pack the rest at the end of a session."""
        if self._packing:
            self._packing.join()  # the end of the process would break it off
        self._pack(ref, 1)
        for name in _FOLDERS:  # git would look into every empty one
            with contextlib.suppress(OSError):
                (self._graph.folder() / name).rmdir()

    def _pack(self, ref: str, most: int, links: int = _LINKS_TO_LOOK_AT) -> None:
        """Pack the loose objects that the newest links of this ref added, by any process; then join many packs."""
        with contextlib.suppress(*_HARMLESS), self._lock() as may_change:
            if may_change:
                if len(loose := list(self._loose_objects(ref, links))) >= _FEWEST:
                    self._drop_loose(self._names(self._join(loose)))
                self._merge(most)

    def _drop_loose(self, names: Iterable[str]) -> None:
        for name in names:
            self._graph.loose_object(name).unlink(missing_ok=True)

    def forget_unpacked(self) -> None:
        """Forget all objects outside packs, in a repository of loopty's own in which packs hold all that lasts."""
        with contextlib.suppress(*_HARMLESS):
            for folder in self._graph.folder().glob("[0-9a-f][0-9a-f]"):
                for path in folder.iterdir():
                    path.unlink(missing_ok=True)
                folder.rmdir()

    def packs(self) -> list[ObjectPack]:
        """List the packs that loopty wrote, the smallest first; without those that the user told git to keep."""
        found = []
        for path in self._folder().glob(f"{_PREFIX}-*.pack"):
            with contextlib.suppress(FileNotFoundError):  # git has removed it just now
                status = path.stat()
                if not path.with_suffix(".keep").exists() and path.with_suffix(".idx").exists():
                    found.append(ObjectPack(path, status.st_size, status.st_mtime))
        return sorted(found, key=lambda pack: pack.size)

    def removable(self, names: Collection[str]) -> dict[str, int]:
        """Pick those of these objects that `remove` would remove now, with their sizes in the packs."""
        wanted, found = set(names), set[str]()
        with contextlib.suppress(*_HARMLESS):
            for pack in self._packs_at_rest():
                found |= wanted.intersection(self._names(pack.path))
            question = "".join(f"{name}\n" for name in found).encode()
            sizes = "--batch-check=%(objectname) %(objectsize:disk)"
            lines = self._git.run("cat-file", sizes, stdin=question).splitlines() if found else ()
            return {name: int(size) for name, size in (line.split() for line in lines) if size.isdecimal()}
        return {}

    def remove(self, names: Collection[str]) -> None:
        """Write packs anew without these objects. A pack that git has just used for a new object stays."""
        with contextlib.suppress(*_HARMLESS), self._lock(wait=True) as may_change:
            for pack in self._packs_at_rest() if may_change else ():
                before = self._names(pack.path)
                kept = [name for name in before if name not in names]
                if len(kept) < len(before):
                    if kept:
                        self._join(kept)
                    _remove_pack(pack.path)

    def _packs_at_rest(self) -> list[ObjectPack]:
        if self._has_shared_index():
            return []
        newest = time.time() - _GRACE_SECONDS
        return [pack for pack in self.packs() if pack.changed_at < newest]

    def _loose_objects(self, ref: str, most: int) -> Iterator[str]:
        """Yield the loose ones among the links of the ref's chain, the commits they hold, and their new files."""
        loose = {path.parent.name + path.name for path in self._graph.folder().glob("[0-9a-f][0-9a-f]/*")}
        options = ("--first-parent", "--parents", f"--max-count={most}", END_OF_OPTIONS, ref)
        links = [line.split() for line in self._git.run("rev-list", *options).splitlines()]
        yield from (link[0] for link in links if link[0] in loose)
        held = dict.fromkeys(commit for link in links for commit in link[2:] if commit in loose)
        if not held:
            return
        question = "".join(f"{commit}\n" for commit in held).encode()
        # A run may begin with a commit of the user.
        ours = ("--no-walk=unsorted", "--stdin", "--fixed-strings", f"--committer={LOOPTY}", "--format=%H %T")
        rows = self._git.run("rev-list", *ours, stdin=question).splitlines()
        trees = dict(row.split() for row in rows if not row.startswith("commit "))
        yield from trees
        new = dict.fromkeys((*trees.values(), *self._new_files(trees)))
        yield from (name for name in new if name in loose)

    def _new_files(self, commits: Iterable[str]) -> Iterator[str]:
        """Yield the trees and blobs below the root that these commits have and their first parents have not."""
        question = "".join(f"{commit}\n" for commit in commits).encode()
        options = ("--stdin", "--root", "-r", "-t", "--raw", "--no-renames", "--no-abbrev", "--no-commit-id")
        for line in self._git.run("diff-tree", *options, stdin=question).splitlines():
            if line.startswith(":"):
                _, mode, _, name, *_ = line.split()
                if mode not in ("000000", "160000"):  # removed, or a commit of another repository
                    yield name

    def _join(self, names: Iterable[str]) -> Path:
        """Let git write one pack of these objects, with differences instead of copies; returns its path."""
        question = "".join(f"{name}\n" for name in names).encode()
        options = ("--quiet", "--threads=1", "--window=5", "--index-version=2")
        digest = self._git.run("pack-objects", *options, str(self._folder() / _PREFIX), stdin=question).strip()
        path = self._folder() / f"{_PREFIX}-{digest}.pack"
        os.utime(path)  # there may have been one of the same objects
        return path

    def _names(self, pack: Path) -> list[str]:
        """List the objects in a pack. Raises OSError when it is gone."""
        listing = self._git.run("show-index", stdin=pack.with_suffix(".idx").read_bytes())
        return [line.split()[1] for line in listing.splitlines()]

    def _merge(self, most: int) -> None:
        """Join packs of similar sizes when there are many, so that a million nodes need a few dozen."""
        packs = self.packs()
        if len(packs) <= most or self._has_shared_index():
            return
        # The largest ones, each at least twice the one before, stay as they are.
        count = len(packs)
        while count > 1 and packs[count - 1].size >= 2 * packs[count - 2].size:
            count -= 1
        if count == 1:
            return
        joined = self._join(dict.fromkeys(name for pack in packs[:count] for name in self._names(pack.path)))
        for pack in packs[:count]:
            if pack.path != joined:  # one of them may have all objects of the others
                _remove_pack(pack.path)

    def _has_shared_index(self) -> bool:
        """Say whether an index of the user's names all packs: then only the user's own git may remove one."""
        return any(self._folder().glob("multi-pack-index*"))

    @functools.cached_property
    def _lets_git_pack(self) -> bool:
        """Say whether the user lets git pack by itself: `git config gc.auto 0` says no."""
        if self._git.settings and "\0gc.auto\n" not in self._git.settings:
            return True
        try:
            return self._git.run("config", "--type=int", "--get", "gc.auto").strip() != "0"
        except GitError:
            return True

    def _folder(self) -> Path:
        return self._graph.folder() / "pack"

    @contextlib.contextmanager
    def _lock(self, wait: bool = False) -> Iterator[bool]:
        """Yield true for one process at a time, and only if the user lets git pack. It ends with the process."""
        folder = os.open(self._folder(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            yield self._lets_git_pack
        finally:
            os.close(folder)


def _remove_pack(path: Path) -> None:
    """Remove a pack as git does: first the index, by which others find it."""
    for suffix in (".idx", ".rev", ".bitmap", ".mtimes", ".pack"):
        path.with_suffix(suffix).unlink(missing_ok=True)


class ObjectGraph:
    """The objects of a repository and what they name."""

    def __init__(self, git: GitCommand, folder: Path) -> None:
        """`folder` has the objects."""
        self._git = git
        self._folder = folder

    def objects_that_exist(self, names: Iterable[str]) -> list[str]:
        """Pick those of these objects that exist."""
        question = "".join(f"{name}\n" for name in dict.fromkeys(names)).encode()
        lines = self._git.run("cat-file", "--batch-check", stdin=question).splitlines() if question else []
        return [line.split()[0] for line in lines if not line.endswith(" missing")]

    def reachable(self, commits: Iterable[str], everything_except: Sequence[str] = ()) -> Iterator[str]:
        """Yield what these commits reach: commits, trees and blobs. A missing object reaches nothing.

        With `everything_except`, also what refs, reflogs, indexes and working trees reach, without these refs.
        """
        tips = "".join(f"{commit}\n" for commit in commits).encode()
        more = (*(f"--exclude={ref}" for ref in everything_except), "--all", "--reflog", "--indexed-objects")
        options = ("--objects", "--no-object-names", "--missing=allow-any", "--stdin")
        argv = git_argv("rev-list", *options, *(more if everything_except else ()))
        with tempfile.TemporaryFile(dir=temporary_top()) as question:
            question.write(tips)
            question.seek(0)
            env = {**self._git.env, "GIT_NO_LAZY_FETCH": "1"}
            with subprocess.Popen(
                argv,
                stdin=question,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                cwd=self._git.git_dir,
            ) as child:
                assert child.stdout
                assert child.stderr
                for line in child.stdout:
                    yield line.decode().strip()
                message = child.stderr.read().decode(errors="replace").strip()
        if child.returncode:
            raise GitError("rev-list", message)

    def loose_object(self, name: str) -> Path:
        """Return where git keeps an object that is in no pack."""
        return self.folder() / name[:2] / name[2:]

    def write_loose(self, name: str, raw: bytes) -> None:
        """Write an object as git does: a read-only file, as a whole, flushed to disk when the system chooses.

        One that exists is overwritten with itself: that is rare, and checking would cost more. Raises OSError.
        """
        folder = self._folder / name[:2]
        if not folder.exists():
            with contextlib.suppress(FileNotFoundError):  # git removes empty folders, also in this moment
                folder.mkdir(exist_ok=True)
                folder.chmod(stat.S_IMODE(self._folder.stat().st_mode))  # a group may share the repository
        write_atomically(folder, name[2:], deflate(raw, 1), mode=0o444)

    def folder(self) -> Path:
        """Return where git keeps the objects of this repository."""
        return self._folder
