"""Saved nodes that are all in memory: those of the ledger in memory, and of a history without a ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.record.pages import FACTS_KEY, NodePlace, Page


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
