"""The nodes of the fold wherever they are: in the ledger, all in memory, or not saved yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import overload

from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.record.node_record import Node
from loopty.record.pages import FACTS_KEY, NodePlace, Page, SavedNodes


class NodesInMemory:
    """Nodes by id, by pool and by identity, as they were last saved."""

    def __init__(self) -> None:
        self._pages: dict[NodeId, Page] = {}
        self._facts: dict[int, str] = {}
        """Facts by block."""
        self._by_pool: dict[tuple[int, Pool], list[NodeId]] = {}
        self._by_identity: dict[tuple[int, str], list[tuple[NodeId, Pool]]] = {}

    def save(self, pages: Mapping[str, Page]) -> None:
        """Save the nodes and the facts among these pages."""
        for key, page in pages.items():
            if page.place:
                self._save_node(NodeId(key), page, page.place)
            elif key.startswith(FACTS_KEY):
                self._facts[int(key.removeprefix(FACTS_KEY))] = page.body

    def page(self, node: NodeId) -> str | None:
        found = self._pages.get(node)
        return found.body if found else None

    def pages(self) -> Iterator[tuple[NodeId, str]]:
        return ((node, page.body) for node, page in list(self._pages.items()))

    def tree_facts(self, node: NodeId) -> str | None:
        found = self._pages.get(node)
        return _place(found).tree_facts if found else None

    def all_tree_facts(self) -> Iterator[tuple[NodeId, str]]:
        return ((node, _place(page).tree_facts) for node, page in list(self._pages.items()))

    def count(self) -> int:
        return len(self._pages)

    def ids(self) -> Iterator[NodeId]:
        return iter(list(self._pages))

    def node_of_handle(self, handle: int) -> NodeId | None:
        return next((node for node, page in self._pages.items() if _place(page).handle == handle), None)

    def pool_size(self, run: int, pool: Pool, newest: int) -> int:
        nodes = self._by_pool.get((run, pool), ())
        return sum(1 for node in nodes if _place(self._pages[node]).handle <= newest)

    def nodes_of_pool(self, run: int, pool: Pool, start: int, stop: int) -> Sequence[NodeId]:
        return self._by_pool.get((run, pool), [])[start:stop]

    def twins(self, run: int, identity: str) -> Sequence[tuple[NodeId, Pool]]:
        found = self._by_identity.get((run, identity), [])
        return sorted(found, key=lambda twin: _place(self._pages[twin[0]]).handle)

    def waiting_nodes(self, run: int, pool: Pool) -> Sequence[NodeId]:
        nodes = self._by_pool.get((run, pool), ())
        return [node for node in nodes if _place(self._pages[node]).waits]

    def nodes_of_handles(self, handles: Sequence[int]) -> Mapping[int, NodeId]:
        wanted = frozenset(handles)
        places = ((_place(page).handle, node) for node, page in self._pages.items())
        return {handle: node for handle, node in places if handle in wanted}

    def facts_page(self, block: int) -> str | None:
        return self._facts.get(block)

    def facts_pages(self) -> Iterator[tuple[int, str]]:
        return iter(sorted(self._facts.items()))

    def _save_node(self, node: NodeId, page: Page, place: NodePlace) -> None:
        if node not in self._pages:
            self._by_pool.setdefault((place.run, place.pool), []).append(node)
        if place.identity is not None:
            self._by_identity.setdefault((place.run, place.identity), []).append((node, place.pool))
        self._pages[node] = page


def _place(page: Page) -> NodePlace:
    assert page.place
    return page.place


NodesOfPool = Callable[[int, Pool], Sequence[NodeId]]
"""The nodes of a run and a pool."""
_AT_ONCE = 10_000
_MOST_NEWER = 1_000
"""Of the nodes added since, as many are kept in memory: a long run takes no more of it than a short one."""


class PoolNodes(Sequence[NodeId]):
    """The ids of one pool of one run, oldest first: some that are saved, then newer ones that are in memory."""

    def __init__(self, saved: SavedNodes, run: int, pool: Pool, saved_count: int, newer: Sequence[NodeId]) -> None:
        """`newer` may grow: the ids of this moment are meant."""
        self._saved = saved
        self._run, self._pool = run, pool
        self._saved_count = saved_count
        self._newer = newer
        self._count = saved_count + len(newer)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> NodeId: ...
    @overload
    def __getitem__(self, index: slice) -> list[NodeId]: ...

    def __getitem__(self, index: int | slice) -> NodeId | list[NodeId]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return list(self)[index]
            return self._between(start, max(start, stop))
        place = range(len(self))[index]
        return self._between(place, place + 1)[0]

    def __iter__(self) -> Iterator[NodeId]:
        for start in range(0, len(self), _AT_ONCE):
            yield from self._between(start, min(start + _AT_ONCE, len(self)))

    def __reversed__(self) -> Iterator[NodeId]:
        for stop in range(len(self), 0, -_AT_ONCE):
            yield from reversed(self._between(max(stop - _AT_ONCE, 0), stop))

    def _between(self, start: int, stop: int) -> list[NodeId]:
        count = self._saved_count
        saved = self._saved.nodes_of_pool(self._run, self._pool, start, min(stop, count)) if start < count else ()
        return [*saved, *self._newer[max(start - count, 0) : max(stop - count, 0)]]


class KnownPools:
    """What a process knows about each pool without asking: how many nodes were saved, and those added since."""

    def __init__(self) -> None:
        self._pools: dict[tuple[int, Pool], tuple[int, list[NodeId]]] = {}

    def nodes(self, saved: SavedNodes, newest: int, run: int, pool: Pool, unsaved: NodesOfPool) -> PoolNodes:
        """List the nodes of a pool: the saved ones up to the short name `newest`, and the unsaved ones."""
        known = self._pools.get((run, pool))
        if known is None or len(known[1]) > _MOST_NEWER:
            known = self._pools[run, pool] = saved.pool_size(run, pool, newest), list(unsaved(run, pool))
        return PoolNodes(saved, run, pool, *known)

    def add(self, node: NodeId, pool: Pool) -> None:
        """Note a node that this process adds."""
        if known := self._pools.get((node.run, pool)):
            known[1].append(node)

    def clear(self) -> None:
        """Forget everything, because another process may have added nodes."""
        self._pools.clear()


class UnsavedNodes:
    """New ids, and the identities that became known; emptied by every save."""

    def __init__(self) -> None:
        self._new: dict[NodeId, Pool] = {}
        self._by_identity: dict[tuple[int, str], list[tuple[NodeId, Pool]]] = {}
        self._identities: dict[NodeId, str] = {}

    def __len__(self) -> int:
        return len(self._new)

    def __iter__(self) -> Iterator[NodeId]:
        return iter(list(self._new))

    def __contains__(self, node: object) -> bool:
        return node in self._new

    def add(self, node: Node) -> None:
        """Note a new node."""
        self._new[node.id] = node.pool
        self.seal(node)

    def seal(self, node: Node) -> None:
        """Note the identity of a node whose files no longer change."""
        if not node.draft:
            self._identities[node.id] = identity = node.identity
            self._by_identity.setdefault((node.id.run, identity), []).append((node.id, node.pool))

    def of_pool(self, run: int, pool: Pool) -> list[NodeId]:
        return [node for node, other in self._new.items() if other is pool and node.run == run]

    def twins(self, run: int, identity: str) -> Sequence[tuple[NodeId, Pool]]:
        return self._by_identity.get((run, identity), ())

    def identity(self, node: NodeId) -> str | None:
        """Return the node's identity, if it became known since the last save."""
        return self._identities.get(node)

    def clear(self) -> None:
        self._new.clear()
        self._by_identity.clear()
        self._identities.clear()
