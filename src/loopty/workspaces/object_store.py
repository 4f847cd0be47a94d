"""The objects of a git repository by name: read through one open git process, written to be packed with others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import IO, Generic, TypeVar

from loopty.workspaces.git_session import GitError, GitSession, read_exactly, read_line
from loopty.workspaces.object_packs import ObjectPacks
from loopty.workspaces.pack_file import NewObject
from loopty.workspaces.waiting_objects import object_name

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

    def __init__(self, content_session: GitSession, size_session: GitSession, packs: ObjectPacks) -> None:
        self._content_session = content_session
        self._size_session = size_session
        self._packs = packs
        self._contents = BoundedCache[bytes](256)
        self._sizes = BoundedCache[int](1 << 18)
        self.restore: Callable[[str], bool] = lambda _: False
        """Brings a commit that another clone made, with its files; false where nobody has it."""

    def read(self, name: str) -> bytes:
        """The content of an object. Raises GitError when there is no such object."""

        def read_answer(stream: IO[bytes]) -> bytes:
            header = read_line(stream).split()
            if len(header) != 3:
                raise _no_object(name)
            content = read_exactly(stream, int(header[2]))
            read_exactly(stream, 1)
            return content

        if (known := self._contents.get(name)) is not None:
            return known
        if waiting := self._packs.waiting(name):
            return waiting.content
        if not name.isalnum():  # a line break would be a second question
            raise GitError("cat-file", f"{name!r} is not the name of an object")
        try:
            content = self._content_session.ask(f"{name}\n".encode(), read_answer)
        except EOFError:
            raise GitError("cat-file", f"ended before it returned {name}") from None
        except GitError:
            self._packs.pack_elsewhere()  # another process may have it, or has packed it just now
            try:
                content = self._content_session.ask(f"{name}\n".encode(), read_answer)
            except GitError:
                if not self.restore(name):
                    raise
                content = self._content_session.ask(f"{name}\n".encode(), read_answer)
        self._remember(name, content)
        return content

    def name_of_ref(self, ref: str) -> str | None:
        """The name of the object that a ref names now, or None. Its content is skipped."""

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
        """The sizes of these objects in bytes. Raises GitError when one does not exist."""
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
        """Store an object; git sees it with the next command. Files and trees come before their commit.

        `known_id` is any object id of the repository; its length says which hash the repository uses. Raises
        OSError.
        """
        name = object_name(kind, content, known_id)
        self._packs.add(NewObject(name, kind, content))
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
        "(`loopty ledger --store`) makes this unnecessary",
    )
