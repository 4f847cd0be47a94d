"""The objects of a repository by name: read through one open git process, and written as git writes new ones.

An object is on disk before anybody knows its name, so a ledger never names a commit that a kill has taken. To make
a commit by git's own commands takes ten milliseconds of CPU, mostly to start processes; this one takes two.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Generic, TypeVar

from loopty.domain.access import ObjectName
from loopty.domain.proposal import Edits
from loopty.engine.protocols import CommittedFiles
from loopty.git.command import LOOPTY, GitError, GitSession, read_exactly, read_line
from loopty.git.packs import ObjectGraph
from loopty.kit.contents import sha1, sha256
from loopty.kit.records import Record

REGULAR_FILES = ("100644", "100755")
DIRECTORY = "040000"
LINK = "120000"
SUBMODULE = "160000"


class TreeEntry(Record):
    """An entry of a tree, as git stores it."""

    mode: str
    blob: str


class PathChange(Record):
    """How a path differs between two trees; a side without the path is None."""

    path: str
    before: TreeEntry | None
    after: TreeEntry | None


Tree = Mapping[str, TreeEntry]
"""The entries of one directory by name."""


class GitObjects:
    """Trees and commits of one repository."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._trees = BoundedCache[Tree](2048)
        self._roots = BoundedCache[str](2048)
        """The trees of commits. What this process wrote need not be read."""
        self._empty_tree = ""
        """The name of the tree without files, once this process has written it."""

    def tree_of(self, commit: str) -> str:
        """Return the tree of a commit."""
        if (known := self._roots.get(commit)) is not None:
            return known
        tree = self._store.read(commit).split(b"\n", 1)[0].removeprefix(b"tree ").decode()
        return self._roots.put(commit, tree)

    def _read_tree(self, tree: str) -> Tree:
        if (known := self._trees.get(tree)) is not None:
            return known
        return self._trees.put(tree, self._parse_tree(tree))

    def _parse_tree(self, tree: str) -> Tree:
        """Parse the entries of a tree object: mode, name, and the raw digest, one after the other."""
        raw, size = self._store.read(tree), len(tree) // 2
        entries: dict[str, TreeEntry] = {}
        start = 0
        while start < len(raw):
            space, end = raw.index(b" ", start), raw.index(b"\0", start)
            name = raw[space + 1 : end].decode(errors="surrogateescape")
            entries[name] = TreeEntry(raw[start:space].decode().zfill(6), raw[end + 1 : end + 1 + size].hex())
            start = end + 1 + size
        return entries

    def entry(self, commit: str, path: str) -> TreeEntry | None:
        """Find the entry at exactly this path, or None."""
        entry: TreeEntry | None = TreeEntry(DIRECTORY, self.tree_of(commit))
        for name in path.split("/"):
            if entry is None or entry.mode != DIRECTORY:
                return None
            entry = self._read_tree(entry.blob).get(name)
        return entry

    def files_below(self, commit: str, path: str) -> Iterator[tuple[str, TreeEntry]]:
        """Yield the files at or below this path, links and submodules included; the whole tree for ""."""
        entry = self.entry(commit, path) if path else TreeEntry(DIRECTORY, self.tree_of(commit))
        if entry:
            yield from self._walk(path, entry)

    def _walk(self, path: str, entry: TreeEntry) -> Iterator[tuple[str, TreeEntry]]:
        if entry.mode != DIRECTORY:
            yield path, entry
            return
        for name, inner in self._read_tree(entry.blob).items():
            yield from self._walk(f"{path}/{name}" if path else name, inner)

    def changes(self, before: str, after: str) -> Iterator[PathChange]:
        """Yield the differences between two commits, file by file."""
        yield from self.tree_changes(self.tree_of(before), self.tree_of(after))

    def tree_changes(self, before: str, after: str) -> Iterator[PathChange]:
        """Yield the differences between two trees, file by file."""
        yield from self._differences("", TreeEntry(DIRECTORY, before), TreeEntry(DIRECTORY, after))

    def _differences(self, path: str, before: TreeEntry | None, after: TreeEntry | None) -> Iterator[PathChange]:
        if before == after:
            return
        old, new = self._directory_entries(before), self._directory_entries(after)
        files = PathChange(
            path, *(None if entry and entry.mode == DIRECTORY else entry for entry in (before, after))
        )
        if files.before or files.after:
            yield files
        for name in {**old, **new}:
            yield from self._differences(f"{path}/{name}" if path else name, old.get(name), new.get(name))

    def _directory_entries(self, entry: TreeEntry | None) -> Tree:
        """Return the entries of a directory; none for a file."""
        return self._read_tree(entry.blob) if entry and entry.mode == DIRECTORY else {}

    def commit(self, parent: str, edits: Edits, modes: Mapping[str, TreeEntry], message: str) -> CommittedFiles:
        """Commit the parent's files with these edits: new content by path, None deletes. No branch is made."""
        entries: dict[str, TreeEntry | None] = {}
        for path, content in edits.items():
            raw = content.encode(errors="replace") if isinstance(content, str) else content
            known = modes.get(path)
            mode = known.mode if known and known.mode != DIRECTORY else REGULAR_FILES[0]
            entries[path] = None if raw is None else TreeEntry(mode, self._store.write("blob", raw, parent))
        tree = self._edit_tree(self.tree_of(parent), entries, parent) or self._store.write("tree", b"", parent)
        signature = f"{LOOPTY} {int(time.time())} +0000"
        clean_message = message.replace("\0", "")
        commit_text = f"tree {tree}\nparent {parent}\nauthor {signature}\ncommitter {signature}\n\n{clean_message}"
        commit = self._store.write("commit", commit_text.encode(errors="replace"), parent)
        return CommittedFiles(ObjectName(commit), ObjectName(self._roots.put(commit, tree)))

    def join(self, parents: Sequence[str], message: str, known_id: str) -> str:
        """Write a commit without files that has these parents, dated 1970."""
        self._empty_tree = self._empty_tree or self._store.write("tree", b"", known_id)
        above = "".join(f"parent {parent}\n" for parent in parents)
        signature = f"{LOOPTY} 0 +0000"
        text = f"tree {self._empty_tree}\n{above}author {signature}\ncommitter {signature}\n\n{message}\n"
        return self._store.write("commit", text.encode(), known_id)

    def _edit_tree(self, tree: str | None, edits: Mapping[str, TreeEntry | None], known_id: str) -> str | None:
        """Write the tree with these edits; None when it has become empty."""
        entries = dict(self._read_tree(tree)) if tree else {}
        by_directory: dict[str, dict[str, TreeEntry | None]] = {}
        for path, entry in edits.items():
            name, _, rest = path.partition("/")
            if rest:
                by_directory.setdefault(name, {})[rest] = entry
            elif entry is None and name in entries and entries[name].mode != DIRECTORY:
                del entries[name]
        for name, below in by_directory.items():
            known = entries[name].blob if name in entries and entries[name].mode == DIRECTORY else None
            if subtree := self._edit_tree(known, below, known_id):
                entries[name] = TreeEntry(DIRECTORY, subtree)
            elif known:
                del entries[name]
        # Last, because a file may replace a directory whose files are deleted.
        entries |= {name: entry for name, entry in edits.items() if entry and "/" not in name}
        if not entries:
            return None
        entries = _in_git_order(entries)  # in the order of a tree that is read: seeded choices depend on it
        new_tree = self._store.write("tree", _tree_bytes(entries), known_id)
        self._trees.put(new_tree, entries)
        return new_tree


def _in_git_order(entries: Tree) -> dict[str, TreeEntry]:
    """Return the entries in git's order: directories sort as if their names ended in a slash."""

    def sort_key(item: tuple[str, TreeEntry]) -> bytes:
        name, entry = item
        return (f"{name}/" if entry.mode == DIRECTORY else name).encode(errors="surrogateescape")

    return dict(sorted(entries.items(), key=sort_key))


def _tree_bytes(entries: Tree) -> bytes:
    """Return the content of a tree object."""
    return b"".join(
        f"{entry.mode.lstrip('0')} {name}\0".encode(errors="surrogateescape") + bytes.fromhex(entry.blob)
        for name, entry in entries.items()
    )


T = TypeVar("T")
_LARGEST_CACHED = 64 << 10
"""Size in bytes of the largest object that is cached."""
_NAMES_PER_QUESTION = 500
"""More would fill the pipes in both directions, and both processes would wait."""


class BoundedCache(Generic[T]):
    """The most recently added values by name, for any number of threads."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: dict[str, T] = {}
        self._lock = threading.Lock()
        self.get = self._values.get

    def put(self, name: str, value: T) -> T:
        with self._lock:
            self._values[name] = value
            if len(self._values) > self._capacity:
                del self._values[next(iter(self._values))]
        return value


class ObjectStore:
    """The content of objects by name. What this process wrote need not be read."""

    def __init__(self, content_session: GitSession, size_session: GitSession, graph: ObjectGraph) -> None:
        self._content_session = content_session
        self._size_session = size_session
        self._graph = graph
        self._contents = BoundedCache[bytes](256)
        self._sizes = BoundedCache[int](1 << 18)
        self.restore: Callable[[str], bool] = lambda _: False
        """Brings a commit that another clone made, with its files; false where nobody has it."""

    def read(self, name: str) -> bytes:
        """Read the content of an object. Raises GitError when there is no such object."""

        def read_answer(stream: IO[bytes]) -> bytes:
            header = read_line(stream).split()
            if len(header) != 3:
                raise _no_object(name)
            content = read_exactly(stream, int(header[2]))
            read_exactly(stream, 1)
            return content

        if (known := self._contents.get(name)) is not None:
            return known
        if not name.isalnum():  # a line break would be a second question
            raise GitError("cat-file", f"{name!r} is not the name of an object")
        try:
            content = self._content_session.ask(f"{name}\n".encode(), read_answer)
        except EOFError:
            raise GitError("cat-file", f"ended before it returned {name}") from None
        except GitError:
            if not self.restore(name):
                raise
            content = self._content_session.ask(f"{name}\n".encode(), read_answer)
        self._remember(name, content)
        return content

    def name_of_ref(self, ref: str) -> str | None:
        """Return the name of the object that a ref names now, or None. Its content is skipped."""

        def read_answer(stream: IO[bytes]) -> str | None:
            header = read_line(stream).split()
            if len(header) != 3 or not header[2].isdigit():
                return None
            read_exactly(stream, int(header[2]) + 1)
            return header[0].decode()

        if not ref.startswith("refs/") or not ref.isprintable() or " " in ref:
            return None  # no ref has such a name, and a line break would be a second question
        try:
            return self._content_session.ask(f"{ref}\n".encode(), read_answer)
        except EOFError:
            raise GitError("cat-file", f"ended before it returned {ref}") from None

    def sizes(self, names: Iterable[str]) -> dict[str, int]:
        """Look up the sizes of these objects in bytes. Raises GitError when one does not exist."""
        sizes = {name: self._sizes.get(name) for name in names}
        unknown = [name for name, size in sizes.items() if size is None]
        for start in range(0, len(unknown), _NAMES_PER_QUESTION):
            sizes |= self._read_sizes(unknown[start : start + _NAMES_PER_QUESTION])
        return {name: size for name, size in sizes.items() if size is not None}

    def _read_sizes(self, names: Sequence[str]) -> dict[str, int]:
        def read_answer(stream: IO[bytes]) -> list[list[bytes]]:
            return [read_line(stream).split() for _ in names]

        try:
            answers = self._size_session.ask("".join(f"{name}\n" for name in names).encode(), read_answer)
        except EOFError:
            raise GitError("cat-file", "ended before it returned the sizes of objects") from None
        if missing := next((name for name, words in zip(names, answers, strict=True) if len(words) != 3), None):
            raise _no_object(missing)
        return {name: self._sizes.put(name, int(words[2])) for name, words in zip(names, answers, strict=True)}

    def write(self, kind: str, content: bytes, known_id: str) -> str:
        """Store an object. Files and trees come before their commit, so a kill leaves none without its files.

        `known_id` is any object id of the repository; its length says which hash the repository uses. Raises
        OSError.
        """
        raw = f"{kind} {len(content)}\0".encode() + content
        name = (sha1 if len(known_id) == 40 else sha256)(raw).hexdigest()
        self._graph.write_loose(name, raw)
        if kind == "blob":  # likely to be read soon
            self._remember(name, content)
        return name

    def _remember(self, name: str, content: bytes) -> None:
        self._sizes.put(name, len(content))
        if len(content) <= _LARGEST_CACHED:
            self._contents.put(name, content)


def _no_object(name: str) -> GitError:
    return GitError(
        "cat-file",
        f"there is no object {name} in this clone. If another clone made it, fetch the files of its nodes: "
        "git fetch OTHER_CLONE '+refs/loopty/runs/*:refs/loopty/fetched/*'. A store that both clones use "
        "(`loopty config ledger --store`) makes this unnecessary",
    )
