"""The files of nodes in the shared store: commits by their names, folders by the hash of their content.

What is sent waits beside the ledger until the store has it (`unsent_objects.py`). What is read is compared with
the hash that the ledger names, because others write to the store, too.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterable, Iterator

from loopty.domain.shared_store import SharedStore, StoreFault
from loopty.kit.records import Record
from loopty.workspaces.commit_bundle import LARGEST_BUNDLE, has_commit, unpack_bundle_of
from loopty.workspaces.git_command import GitCommand
from loopty.workspaces.state_folder import StateFolder
from loopty.workspaces.store_sender import COMMITS, StoreSender
from loopty.workspaces.stored_folder import decode_folder, encode_folder
from loopty.workspaces.unsent_objects import COMMIT, CONTENT, HISTORY, Unsent, UnsentObjects

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
        """What waits, and why. Asks the store nothing."""
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
        """The files with this digest, one by one. Raises StoreFault where one is missing or was changed."""
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
        """The contents that belong to these keys and commits; not those that were written within ten minutes."""
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
                "(`loopty ledger --send` there)"
            )
        if hashlib.sha256(content).hexdigest() != digest:
            raise StoreFault(
                f"{name} in the store {self._store.shown} was changed: remove it there, and let the clone that "
                "made it send it again"
            )
        return content
