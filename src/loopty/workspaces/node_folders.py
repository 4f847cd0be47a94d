"""What is kept of nodes: a folder of plain files, and other files, or for a discarded node all of them, folded.

Readers need not know which. People get plain files in either case, in the working tree: of kept nodes always, of
others when they look.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from loopty.domain.ids import NodeId
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFolder
from loopty.workspaces.folded_folders import FoldedFolders, files_below
from loopty.workspaces.state_folder import StateFolder

CHANGE = "change.diff"
"""The file with the node's change to its parent."""
_NEW_DESCRIPTIONS = 64
_LONGEST_DESCRIPTION = 256 << 10
_LARGEST_FOLDED = 64 << 10
"""Of a file that comes from the shared store; a larger one stays as it is."""
_LARGEST_SENT = 512 << 20


class NodeFolder(Record):
    """The files that are kept of one node."""

    plain: SafeFolder
    folded: Mapping[str, bytes]

    def read(self, name: str, limit_bytes: int | None = None, tail: bool = False) -> bytes:
        """A file, or at most so many bytes of its head or its tail. Raises OSError where there is none."""
        *above, last = PurePosixPath(name).parts
        try:
            return self.plain.below(*above).file(last).read(limit_bytes, tail)
        except FileNotFoundError:
            if name not in self.folded:
                raise
        content = self.folded[name]
        if limit_bytes is None:
            return content
        return content[max(0, len(content) - limit_bytes) :] if tail else content[:limit_bytes]

    def names_below(self, folder: str) -> list[str]:
        """The names in one of its folders, in order; none where it is missing."""
        inside = (name.removeprefix(f"{folder}/") for name in self.folded if name.startswith(f"{folder}/"))
        return sorted({*self.plain.below(folder).names(), *inside})


FetchFolder = Callable[[NodeId], Iterable[tuple[str, bytes]]]
"""The files of a node that another clone has put into the shared store; none where there are none."""


class NodeFolders:
    """The folders of all nodes."""

    def __init__(self, state: StateFolder, fetch: FetchFolder | None = None) -> None:
        self._state = state
        self._folded = FoldedFolders(state.node_archive)
        self._new_descriptions: dict[NodeId, Mapping[str, bytes]] = {}
        """Of the newest nodes of this process: the next prompt shows their changes."""
        self._fetch = fetch

    def close(self) -> None:
        """Leave no open file; the next use opens it again."""
        self._folded.close()

    def open(self, node: NodeId) -> NodeFolder:
        plain, folded = self._state.node_folder(node), self._folded.files(node.name)
        if self._fetch and not folded and not plain.exists():
            folded = self._keep_fetched(node, self._fetch(node))
        return NodeFolder(plain, folded)

    def _keep_fetched(self, node: NodeId, files: Iterable[tuple[str, bytes]]) -> Mapping[str, bytes]:
        """Keep what came from the store: large files as they are, so that they need not be in memory together."""
        folded, plain = {}, self._state.node_folder(node)
        for path, content in files:
            if len(content) > _LARGEST_FOLDED:
                plain.file_at(path).write(content)
            else:
                folded[path] = content
        if folded and not self._folded.add(node.name, folded):
            for path, content in folded.items():
                plain.file_at(path).write(content)
        return folded

    def files(self, node: NodeId) -> Iterator[tuple[str, bytes]]:
        """All that is kept of the node here, by path."""
        plain, folded = self._state.node_folder(node), self._folded.files(node.name)
        seen = set()
        with contextlib.suppress(FileNotFoundError):
            for path, content in files_below(plain, limit_bytes=_LARGEST_SENT):
                seen.add(path)
                yield path, content
        yield from ((path, content) for path, content in folded.items() if path not in seen)

    def new_description(self, node: NodeId) -> Mapping[str, bytes]:
        """The files that describe the node, where this process has made them a short while ago; else none."""
        return self._new_descriptions.get(node, {})

    def remember_description(self, node: NodeId, files: Mapping[str, bytes]) -> None:
        """Keep the files that describe the node in memory for a while, unless they are long."""
        if sum(map(len, files.values())) <= _LONGEST_DESCRIPTION:
            self._new_descriptions[node] = files
            if len(self._new_descriptions) > _NEW_DESCRIPTIONS:
                self._new_descriptions.pop(next(iter(self._new_descriptions)), None)

    def add(self, node: NodeId, files: Mapping[str, bytes]) -> None:
        """Keep these files of the node, in place of those of the same names."""
        if not files:
            return
        # One row costs less than a file each, also for a node that will be kept.
        plain = self._state.node_folder(node)
        known = set(plain.names())
        is_plain = any(name in known and plain.file(name).exists() for name in files)
        if is_plain or not self._folded.add(node.name, files):
            plain.write_files(files)

    def fold(self, node: NodeId, last_files: Mapping[str, bytes]) -> None:
        """Fold the node's folder with these files more, and remove the copy for people."""
        if not self._folded.fold(plain := self._state.node_folder(node), last_files):
            plain.write_files(last_files)
        if not (copy := self._state.node_copy(node)).is_absent():
            with contextlib.suppress(OSError):
                copy.remove_all()

    def lay_out(self, node: NodeId, more: Mapping[str, bytes]) -> None:
        """Make the copy for people, with these files more, or complete it.

        Raises UnsafePath where somebody has put a link in the way.
        """
        copy, found = self._state.node_copy(node), self.open(node)
        plain = found.plain
        for name, content in {**found.folded, **more}.items():
            *above, last = PurePosixPath(name).parts
            copy.below(*above).file(last).write(content)
        if plain.exists():
            plain.copy_into(copy.make())

    def size(self, node: NodeId) -> int:
        """What is kept of the node, in bytes, with the copy for people."""
        from loopty.workspaces.rebuildable_folders import bytes_below

        plain, copy = self._state.node_folder(node), self._state.node_copy(node)
        return bytes_below(plain) + bytes_below(copy) + self._folded.size(node.name)

    def remove(self, node: NodeId) -> None:
        """Remove all of it."""
        self._new_descriptions.pop(node, None)
        for folder in (self._state.node_folder(node), self._state.node_copy(node)):
            if folder.exists():
                folder.remove_all()
        self._folded.remove(node.name)
