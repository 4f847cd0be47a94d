"""Garbage: what discarded nodes take on disk, and how it is removed. The record of what was measured stays.

Killed at any instant, it loses nothing: first the ledger says that the files of a node are gone, then they go, and
the next time goes on where this one stopped. Any number of processes may do it at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeVar

from loopty.domain.ids import NodeId
from loopty.domain.shared_store import StoreFault
from loopty.executors.process_locks import ProcessLocks
from loopty.git.repository import Repository
from loopty.kit.records import Record
from loopty.record.fold import Event
from loopty.record.history import History
from loopty.record.nodes import FilesRemoved
from loopty.record.recorder import Recorder
from loopty.session.saved_record import SavedRecord
from loopty.show.chosen_nodes import removable_nodes
from loopty.workspaces.node_storage import LonelyObjects, NodeStorage
from loopty.workspaces.rebuildable_folders import RebuildableFolder, RebuildableFolders
from loopty.workspaces.shared_files import folder_key

T = TypeVar("T")
DEFAULT_AGE_SECONDS = 14 * 86_400.0
_NODES_PER_EVENT = 500


class GarbageRules(Record):
    """Which garbage goes: what is older than this, the oldest first, until nodes and build caches fit."""

    older_than_seconds: float
    max_bytes: int | None = None
    """The size that they may have together; None: all that is old enough goes."""


class Garbage(Record):
    """What would go, or has gone."""

    nodes: tuple[NodeId, ...]
    """Nodes whose files go now."""
    node_bytes: int
    """Of their folders, logs and copies."""
    objects: int
    """Git objects that only these nodes and those of earlier times need; the user's packs are left to git."""
    object_bytes: int
    exports: tuple[str, ...]
    export_bytes: int
    caches: tuple[str, ...]
    """Build caches that no trial has used for so long; the next baseline fills them again."""
    cache_bytes: int
    stored: int = 0
    """Contents of the shared store that only these nodes and those of earlier times need."""

    @property
    def total_bytes(self) -> int:
        return self.node_bytes + self.object_bytes + self.export_bytes + self.cache_bytes

    @property
    def is_empty(self) -> bool:
        return not (self.nodes or self.objects or self.exports or self.caches or self.stored)


class GarbageCollector:
    """Finds and removes the garbage of one repository. Needs no task file."""

    def __init__(self, record: SavedRecord, rules: GarbageRules) -> None:
        self._record = record
        self._rules = rules
        self._repository = Repository.open(record.state.top)
        self._storage = NodeStorage(self._repository, record.state)
        self._exports = RebuildableFolders(record.state.exports)
        self._caches = RebuildableFolders(record.state.caches)
        self._locks = ProcessLocks(record.state.owners)
        self._sizes: dict[NodeId, int] = {}

    def find(self) -> Garbage:
        """Find what would go now. Changes nothing."""
        history = self._record.history
        return self._garbage(history, self._nodes_to_clear(history))

    def remove(self) -> Garbage:
        """Remove it; returns what has gone."""
        recorder = Recorder(self._record.ledger, self._record.ledger.now)
        chosen: list[NodeId] = []

        def decide(history: History) -> Iterator[Event]:
            chosen[:] = self._nodes_to_clear(history)
            for start in range(0, len(chosen), _NODES_PER_EVENT):
                yield FilesRemoved(tuple(chosen[start : start + _NODES_PER_EVENT]))

        recorder.record(decide)
        history = recorder.refresh()
        garbage = self._garbage(history, chosen)
        nodes = [history[node] for node in history.ids]
        removed = [node for node in nodes if node.files_removed]
        # Once more: a node may have been added meanwhile, which has the commit of a removed one.
        self._storage.release(removed, _kept_commits(recorder.refresh(), ()))
        for node in nodes:
            if node.files_removed or node.dropped:
                self._storage.remove_folders(node.id)
        for name in garbage.exports:
            self._exports.remove(name, self._has_living_owner)
        for name in garbage.caches:
            self._caches.remove(name, self._has_living_owner)
        self._storage.remove_objects(self._lonely_objects(recorder.refresh(), ()))
        if self._record.shared:  # last: where the store is away, the next time goes on with it
            self._record.shared.remove(*_stored_names(recorder.refresh(), ()))
        return garbage

    def _nodes_to_clear(self, history: History) -> list[NodeId]:
        before = time.time() - self._rules.older_than_seconds
        candidates = removable_nodes(history, self._record.owners.is_alive, before)
        excess = self._excess(history) - _size_of(self._caches_to_clear(history))
        return list(_until_it_fits(candidates, self._size, excess))

    def _caches_to_clear(self, history: History) -> list[RebuildableFolder]:
        """List the build caches that go, before any node; none while a process works here: it may use any."""
        if self._has_living_owner():
            return []
        old = self._caches.older_than(time.time() - self._rules.older_than_seconds)
        return list(_until_it_fits(old, lambda cache: cache.size, self._excess(history)))

    def _excess(self, history: History) -> float:
        """Count the bytes by which folders of nodes and caches exceed their limit; without one, all of it."""
        if self._rules.max_bytes is None:
            return math.inf
        used = sum(map(self._size, history.ids)) + _size_of(self._caches.older_than(math.inf))
        return used - self._rules.max_bytes

    def _size(self, node: NodeId) -> int:
        if node not in self._sizes:
            self._sizes[node] = self._storage.folder_bytes(node)
        return self._sizes[node]

    def _garbage(self, history: History, chosen: Sequence[NodeId]) -> Garbage:
        before = time.time() - self._rules.older_than_seconds
        exports = [] if self._has_living_owner() else self._exports.older_than(before)
        caches = self._caches_to_clear(history)
        objects = self._lonely_objects(history, chosen)
        return Garbage(
            nodes=tuple(chosen),
            node_bytes=sum(map(self._size, chosen)),
            objects=objects.count,
            object_bytes=objects.size,
            exports=tuple(export.name for export in exports),
            export_bytes=_size_of(exports),
            caches=tuple(cache.name for cache in caches),
            cache_bytes=_size_of(caches),
            stored=self._stored(history, chosen),
        )

    def _stored(self, history: History, chosen: Collection[NodeId]) -> int:
        """Count the contents of the shared store that are unneeded when the files of these nodes are gone."""
        try:
            shared = self._record.shared
            return len(shared.removable(*_stored_names(history, chosen))) if shared else 0
        except StoreFault:
            return 0  # it is away; who removes hears of it

    def _lonely_objects(self, history: History, chosen: Collection[NodeId]) -> LonelyObjects:
        """Find the objects that are unneeded when the files of these nodes are gone."""
        gone = {*chosen, *(node for node in history.ids if history[node].files_removed)}
        commits = {history[node].commit for node in gone}
        return self._storage.lonely_objects(commits, _kept_commits(history, gone))

    def _has_living_owner(self) -> bool:
        """Say whether any process works on this repository: it may use any export."""
        return any(self._locks.is_alive(f":{token}") for token in self._record.state.owners.names())


def _stored_names(history: History, chosen: Collection[NodeId]) -> tuple[set[str], set[str]]:
    """Return the keys and the commits of what the shared store has and nothing needs."""
    gone = {*chosen, *(node for node in history.ids if history[node].files_removed)}
    commits = {str(history[node].commit) for node in gone} - _kept_commits(history, gone)
    return {folder_key(history.runs[node.run], node) for node in gone}, commits


def _until_it_fits(candidates: Iterable[T], size: Callable[[T], int], excess: float) -> Iterator[T]:
    """Yield the first of these, until they have as many bytes as there are too many."""
    for candidate in candidates:
        if excess <= 0:
            return
        yield candidate
        excess -= size(candidate)


def _size_of(folders: Iterable[RebuildableFolder]) -> int:
    return sum(folder.size for folder in folders)


def _kept_commits(history: History, gone: Collection[NodeId]) -> set[str]:
    """Return the commits of all nodes whose files stay."""
    nodes = map(history.__getitem__, list(history.ids))
    return {node.commit for node in nodes if not node.files_removed and node.id not in gone}
