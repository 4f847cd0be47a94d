"""The files of nodes in the shared store: what this clone makes is sent, what others made is fetched, by names and
hashes.
"""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from loopty.domain.access import is_clean_path
from loopty.domain.ids import NodeId
from loopty.domain.shared_store import SharedStore, StoreFault
from loopty.git.bundles import LARGEST_BUNDLE, has_commit, unpack_bundle_of
from loopty.git.command import GitCommand
from loopty.git.repository import Repository
from loopty.kit.records import Record
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.run_record import Run
from loopty.record.trials import trial_token
from loopty.workspaces.node_folders import decode_files, encode_files
from loopty.workspaces.state_folder import StateFolder
from loopty.workspaces.store_sender import COMMIT, COMMITS, CONTENT, HISTORY, StoreSender, Unsent, UnsentObjects

NoteStored = Callable[[NodeId, str], None]
"""Records that the folder of a node has this digest."""


def folder_key(run: Run, node: NodeId) -> str:
    """Return the store's key for the folder of a node: no run of this or another ledger shares it."""
    return trial_token(run, f"files of {node}")


class NodeSharing:
    """Sends and fetches, by what the ledger says."""

    def __init__(
        self, shared: SharedFiles, history: Callable[[], History], note: NoteStored | None = None
    ) -> None:
        """Read folders only, if there is no `note`."""
        self._shared = shared
        self._history = history
        self._note = note

    def fetch(self, node: NodeId) -> Iterator[tuple[str, bytes]]:
        """Yield the files of a node that another clone has sent; none if the store does not have them now."""
        history = self._history()
        found = history[node]
        if found.stored and not found.files_removed:
            try:
                yield from self._shared.folder(folder_key(history.runs[node.run], node), found.stored)
            except StoreFault:
                return  # without its logs, a node still has its record

    def send_commit(self, repository: Repository, node: Node, parent: Node | None) -> None:
        """Let others have the commit of a node; with that of a baseline, also the history below it."""
        if parent is None:
            self._shared.add_commit(node.commit, repository.parents(node.commit))
        elif parent.commit != node.commit:
            self._shared.add_commit(node.commit)

    def send_folder(self, node: Node, files: Iterable[tuple[str, bytes]]) -> None:
        """Let others have the folder of a node as it is now."""
        if self._note is None:
            return
        key = folder_key(self._history().runs[node.id.run], node.id)
        if (digest := self._shared.add_folder(key, files)) != node.stored:
            self._note(node.id, digest)


# What is sent waits beside the ledger until the store has it (`unsent_objects.py`). What is read is compared with
# the hash that the ledger names, because others write to the store, too.


_NODES = "nodes"
_LARGEST_CONTENT = 512 << 20
_GRACE_SECONDS = 600
"""What was written so recently may belong to something that the ledger does not name yet."""


class StoreStanding(Record):
    """How it is with the shared store."""

    place: str
    unsent: int
    """How many things wait for it."""
    unsent_bytes: int
    fault: str
    """Why they wait, and what to do; empty where nothing is wrong."""


class SharedFiles:
    """One clone's access to the shared store."""

    def __init__(self, store: SharedStore, state: StateFolder, git: GitCommand) -> None:
        self._store = store
        self._git = git
        self._unsent = UnsentObjects(state.unsent)
        self._sender = StoreSender(store, self._unsent, git)

    def standing(self) -> StoreStanding:
        """Say what waits, and why. Asks the store nothing."""
        unsent = self._unsent
        return StoreStanding(self._store.shown, len(unsent.items()), unsent.size, unsent.fault)

    def send_what_waits(self) -> None:
        """Send in the background what an earlier process has left."""
        if self._unsent.items():
            self._sender.start()

    def send_now(self) -> None:
        """Send all that waits. Raises StoreFault where the store does not take it."""
        if not self._sender.send_all():
            raise StoreFault(self._unsent.fault)

    def add_commit(self, commit: str, histories: Iterable[str] = ()) -> None:
        """Let the store have what a commit adds to its parents; `histories` are parents that no node has."""
        for history in histories:
            self._unsent.add(Unsent(HISTORY, history))
        self._unsent.add(Unsent(COMMIT, commit))
        self._sender.start()

    def add_folder(self, key: str, files: Iterable[tuple[str, bytes]]) -> str:
        """Let the store have these files; the digest by which they are found again with the same key."""
        folder, large = encode_folder(files)
        digest = hashlib.sha256(folder).hexdigest()
        for name, content in {**large, digest: folder}.items():
            self._unsent.add(Unsent(CONTENT, f"{_NODES}.{key}.{name}"), content)
        self._sender.start()
        return digest

    def folder(self, key: str, digest: str) -> Iterator[tuple[str, bytes]]:
        """Yield the files with this digest, one by one. Raises StoreFault if one is missing or was changed."""
        stored = decode_folder(self._content(key, digest))
        yield from stored.small.items()
        for path, file in stored.large.items():
            yield path, self._content(key, file.digest)

    def restore(self, commit: str) -> bool:
        """Bring a commit that another clone made into this repository; false where the store has none."""

        def get(name: str) -> bytes | None:
            return self._store.get(f"{COMMITS}/{name}", LARGEST_BUNDLE)

        return unpack_bundle_of(self._git, commit, get, lambda name: has_commit(self._git, name))

    def removable(self, keys: Collection[str], commits: Collection[str]) -> list[str]:
        """List the contents of these keys and commits, but not those written within the last ten minutes."""
        newest = time.time() - _GRACE_SECONDS
        folders = (entry for entry in self._store.entries(f"{_NODES}/") if entry.name.split("/")[1] in keys)
        wanted = {f"{COMMITS}/{commit}" for commit in commits}
        bundles = (entry for entry in self._store.entries(f"{COMMITS}/") if entry.name in wanted)
        return [entry.name for entry in (*folders, *bundles) if entry.changed_at < newest]

    def remove(self, keys: Collection[str], commits: Collection[str]) -> None:
        """Remove them, and what of them waits here."""
        for item in self._unsent.items():
            name = item.name.split(".")[1] if item.kind == CONTENT else item.name
            if name in (keys if item.kind == CONTENT else commits):
                self._unsent.remove(item)
        for entry in self.removable(keys, commits):
            self._store.remove(entry)

    def _content(self, key: str, digest: str) -> bytes:
        name = f"{_NODES}/{key}/{digest}"
        content = self._store.get(name, _LARGEST_CONTENT)
        if content is None:
            raise StoreFault(
                f"the store {self._store.shown} has no {name}: the clone that made it has not sent it yet "
                "(`loopty config ledger --send` there)"
            )
        if hashlib.sha256(content).hexdigest() != digest:
            raise StoreFault(
                f"{name} in the store {self._store.shown} was changed: remove it there, and let the clone that "
                "made it send it again"
            )
        return content


_LARGEST_INLINE = 64 << 10
_LARGEST_TOGETHER = 256 << 20
"""Of the small files together, when they are read."""
_LARGE_FILES = ".large-files"
"""The entry that names the large files; no file of a node has this name."""


class LargeFile(Record):
    """A file of a folder that is a content of its own."""

    digest: str
    size: int


class StoredFolder(Record):
    """The files of a folder by their paths."""

    small: Mapping[str, bytes]
    large: Mapping[str, LargeFile]


def encode_folder(files: Iterable[tuple[str, bytes]]) -> tuple[bytes, dict[str, bytes]]:
    """Encode the folder as one content; return it with the contents of its large files by their digests."""
    small: dict[str, bytes] = {}
    large: dict[str, tuple[str, int]] = {}
    contents = {}
    for path, content in sorted(files):
        if len(content) <= _LARGEST_INLINE:
            small[path] = content
        else:
            digest = hashlib.sha256(content).hexdigest()
            large[path], contents[digest] = (digest, len(content)), content
    if large:
        small[_LARGE_FILES] = json.dumps(large).encode()
    return encode_files(small), contents


def decode_folder(raw: bytes) -> StoredFolder:
    """Decode the folder in a content whose hash was compared. Raises StoreFault if it is none."""
    try:
        stream = zlib.decompressobj()
        stream.decompress(raw, _LARGEST_TOGETHER)
        if stream.unconsumed_tail:
            raise ValueError("it is too large")
        small = decode_files(raw)
        rows = json.loads(small.pop(_LARGE_FILES, b"{}"))
        large = {path: LargeFile(str(digest), int(size)) for path, (digest, size) in rows.items()}
        if not all(map(is_clean_path, (*small, *large))):
            raise ValueError("it names files outside")
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError, zlib.error) as error:
        raise StoreFault(f"a folder in the store cannot be read: {error}") from None
    return StoredFolder(small, large)
