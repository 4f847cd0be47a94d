"""Packs of loopty's own objects: what many nodes add is a few files, and git's commands stay as fast as before.

Objects are written loose, one file each, and packed as the run goes: by the hundreds in a session, and at the end
of a verb, whose process adds one node. Only what loopty wrote is packed, into packs with a name of their own; the
user's objects, packs and settings are not touched. The loose files go last, when the pack is complete, so a kill
at any instant leaves each object in at least one place. Git reads, joins and removes these packs as it does its
own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from loopty.kit.dataclass import dataclass
from loopty.workspaces.git_command import END_OF_OPTIONS, LOOPTY, GitCommand
from loopty.workspaces.git_session import GitError
from loopty.workspaces.object_graph import ObjectGraph
from loopty.workspaces.pack_file import NewObject, names_in_index, write_pack

_PREFIX = "loopty"
_OBJECTS_PER_PACK = 500
_BYTES_PER_PACK = 16 << 20
_LARGEST_REMEMBERED = 1 << 20
"""A larger object stays loose until a session ends."""
_NODES_PER_LOOK = 20
"""Verbs add one node each. A look takes five processes of git, 1 ms of CPU per node."""
_LINKS_TO_LOOK_AT = 1024
"""What a killed process left further back than this stays loose."""
_FEWEST = 50
"""Fewer loose objects than this are not worth a pack."""
_MOST_PACKS = 10
_FOLDERS = tuple(f"{number:02x}" for number in range(256))
"""In which git keeps loose objects, by the first byte of their names."""
_HARMLESS = (OSError, GitError)
"""Another process packs, the repository is read-only, the disk is full: the objects stay as they are."""
_GRACE_SECONDS = 600
"""Git dates a pack anew instead of writing an object that it holds: a commit that no ref holds yet may need it."""


@dataclass(frozen=True, slots=True)
class ObjectPack:
    """A pack that loopty wrote."""

    path: Path
    """Of its `.pack` file."""
    size: int
    changed_at: float

    @property
    def names(self) -> Iterator[str]:
        """The objects in it. Raises OSError when it is gone."""
        return names_in_index(self.path.with_suffix(".idx"))


class ObjectPacks:
    """Loopty's packs in one repository. Any number of processes may use them; one at a time changes them."""

    def __init__(self, git: GitCommand, graph: ObjectGraph) -> None:
        self._git = git
        self._graph = graph
        self._thread: threading.Thread | None = None
        self._new: dict[str, NewObject] = {}
        self._new_bytes = 0
        self._nodes = 0

    def add(self, item: NewObject) -> None:
        """Remember an object that was just written loose, to be packed with others."""
        if len(item.content) <= _LARGEST_REMEMBERED:
            self._new[item.name] = item
            self._new_bytes += len(item.content)

    def after_node(self, handle: int, ref: str) -> None:
        """Pack in the background what nodes have added, if that is due at this node."""
        self._nodes += 1
        if self._thread and self._thread.is_alive():
            return
        if len(self._new) >= _OBJECTS_PER_PACK or self._new_bytes >= _BYTES_PER_PACK:
            self._thread = threading.Thread(target=self._pack_new, args=(self._take_new(),), daemon=True)
            self._thread.start()
        elif handle % _NODES_PER_LOOK == 0 and self._nodes < _NODES_PER_LOOK:  # others have added most of them
            self._thread = threading.Thread(target=self.pack_loose, args=(ref,), daemon=True)
            self._thread.start()

    def finish_node(self) -> None:
        """Pack what a verb has added, and wait for the pack that is being written."""
        self._wait()
        if new := [item for item in self._take_new() if self._graph.loose_object(item.name).exists()]:
            self._pack_new(new)
            # In a session they stay until its end: the next objects would need them again.
            self._remove_empty_folders({item.name[:2] for item in new})

    def finish(self, ref: str) -> None:
        """Wait for the pack that is being written, and pack the rest, at the end of a session."""
        self._wait()
        self._take_new()
        self.pack_loose(ref)
        with contextlib.suppress(*_HARMLESS), self._lock() as may_change:
            if may_change:
                self._merge(1)
                self._remove_empty_folders()

    def pack_loose(self, ref: str) -> None:
        """Pack the loose objects that the newest nodes of this ref added, by any process, unless they are few."""
        with contextlib.suppress(*_HARMLESS), self._lock() as may_change:
            if may_change and len(loose := list(self._loose_objects(ref))) >= _FEWEST:
                self._drop_loose(self._join(loose))
                self._remove_empty_folders()
                self._merge(_MOST_PACKS)

    def _wait(self) -> None:
        """Wait for the pack that is being written, if there is one: the end of the process would break it off."""
        if self._thread:
            self._thread.join()

    def _take_new(self) -> list[NewObject]:
        new, self._new, self._new_bytes = list(self._new.values()), {}, 0
        return new

    def _pack_new(self, objects: Sequence[NewObject]) -> None:
        with contextlib.suppress(*_HARMLESS), self._lock() as may_change:
            if may_change:
                write_pack(self._folder(), _PREFIX, objects)
                self._drop_loose(item.name for item in objects)
                self._merge(_MOST_PACKS)

    def _drop_loose(self, names: Iterable[str]) -> None:
        for name in names:
            self._graph.loose_object(name).unlink(missing_ok=True)

    def forget_loose(self) -> None:
        """Remove all loose objects, in a repository of loopty's own in which everything that lasts is packed."""
        self._take_new()
        with contextlib.suppress(*_HARMLESS):
            for folder in self._graph.folder().glob("[0-9a-f][0-9a-f]"):
                for path in folder.iterdir():
                    path.unlink(missing_ok=True)
                folder.rmdir()

    def packs(self) -> list[ObjectPack]:
        """The packs that loopty wrote, the smallest first; without those that the user told git to keep."""
        found = []
        for path in self._folder().glob(f"{_PREFIX}-*.pack"):
            with contextlib.suppress(FileNotFoundError):  # git has removed it just now
                status = path.stat()
                if path.with_suffix(".idx").exists() and not path.with_suffix(".keep").exists():
                    found.append(ObjectPack(path, status.st_size, status.st_mtime))
        return sorted(found, key=lambda pack: pack.size)

    def removable(self, names: Collection[str]) -> dict[str, int]:
        """Those of these objects that `remove` would remove now, with their sizes in the packs."""
        wanted, found = set(names), set[str]()
        with contextlib.suppress(*_HARMLESS):
            for pack in self._packs_at_rest():
                found |= wanted.intersection(pack.names)
            question = "".join(f"{name}\n" for name in found).encode()
            sizes = "--batch-check=%(objectname) %(objectsize:disk)"
            lines = self._git.run("cat-file", sizes, stdin=question).splitlines() if found else ()
            return {name: int(size) for name, size in (line.split() for line in lines) if size.isdecimal()}
        return {}

    def remove(self, names: Collection[str]) -> None:
        """Write packs anew without these objects. A pack that git has just used for a new object stays."""
        with contextlib.suppress(*_HARMLESS), self._lock(wait=True) as may_change:
            for pack in self._packs_at_rest() if may_change else ():
                before = list(pack.names)
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

    def _loose_objects(self, ref: str) -> Iterator[str]:
        """The loose ones among the links of the ref's chain, the commits that they hold, and their new files."""
        options = ("--first-parent", "--parents", f"--max-count={_LINKS_TO_LOOK_AT}")
        links = [line.split() for line in self._git.run("rev-list", *options, END_OF_OPTIONS, ref).splitlines()]
        yield from self._loose(link[0] for link in links)
        held = self._loose(dict.fromkeys(commit for link in links for commit in link[2:]))
        question = "".join(f"{commit}\n" for commit in held).encode()
        if not question:
            return
        # A run may begin with a commit of the user.
        ours = ("--no-walk=unsorted", "--stdin", "--fixed-strings", f"--committer={LOOPTY}")
        commits = self._git.run("rev-list", *ours, stdin=question).split()
        yield from commits
        yield from self._loose(dict.fromkeys(self._new_files(commits)))

    def _new_files(self, commits: Sequence[str]) -> Iterator[str]:
        """The trees and blobs that these commits have and their first parents have not."""
        # The root tree is no entry of itself, so git is asked for it.
        roots = "".join(f"{commit}^{{tree}}\n" for commit in commits).encode()
        for line in self._git.run("cat-file", "--batch-check", stdin=roots).splitlines():
            yield line.split()[0]
        question = "".join(f"{commit}\n" for commit in commits).encode()
        options = ("--stdin", "--root", "-r", "-t", "--raw", "--no-renames", "--no-abbrev", "--no-commit-id")
        for line in self._git.run("diff-tree", *options, stdin=question).splitlines():
            if line.startswith(":"):
                _, mode, _, name, *_ = line.split()
                if mode not in ("000000", "160000"):  # removed, or a commit of another repository
                    yield name

    def _loose(self, names: Iterable[str]) -> Iterator[str]:
        return (name for name in names if self._graph.loose_object(name).exists())

    def _join(self, names: Iterable[str]) -> Iterator[str]:
        """Let git write one pack of these objects, with differences instead of copies; returns their names."""
        question = "".join(f"{name}\n" for name in names).encode()
        options = ("--quiet", "--threads=1", "--window=5", "--index-version=2")
        digest = self._git.run("pack-objects", *options, str(self._folder() / _PREFIX), stdin=question).strip()
        path = self._folder() / f"{_PREFIX}-{digest}.pack"
        os.utime(path)  # there may have been one of the same objects
        return names_in_index(path.with_suffix(".idx"))

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
        before = {pack.path for pack in packs}
        self._join(dict.fromkeys(name for pack in packs[:count] for name in pack.names))
        for pack in packs[:count] if {pack.path for pack in self.packs()} - before else ():
            _remove_pack(pack.path)

    def _remove_empty_folders(self, names: Iterable[str] = _FOLDERS) -> None:
        """Remove the folders that loose objects have left empty, as git does: it looks into every one."""
        for name in names:
            with contextlib.suppress(OSError):
                (self._graph.folder() / name).rmdir()

    def _has_shared_index(self) -> bool:
        """Whether an index of the user's names all packs: then only the user's own git may remove one."""
        return any(self._folder().glob("multi-pack-index*"))

    def _lets_git_pack(self) -> bool:
        """Whether the user lets git pack by itself: `git config gc.auto 0` says no."""
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
        """True for one process at a time, and only where the user lets git pack. It ends with the process."""
        folder = os.open(self._folder(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            yield self._lets_git_pack()
        finally:
            os.close(folder)


def _remove_pack(path: Path) -> None:
    """Remove a pack as git does: first the index, by which others find it."""
    for suffix in (".idx", ".rev", ".bitmap", ".mtimes", ".pack"):
        path.with_suffix(suffix).unlink(missing_ok=True)
