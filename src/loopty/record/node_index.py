"""Which nodes a pool has, and which of them are the same experiment. Built at the first question."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.record.node_record import Node


class NodeIndex:
    """An index of the nodes that `nodes` yields, oldest first."""

    def __init__(self, nodes: Callable[[], Iterable[Node]]) -> None:
        self._nodes = nodes
        self._by_pool: dict[tuple[int, Pool], list[NodeId]] | None = None
        self._by_identity: dict[tuple[int, Pool, str], NodeId] | None = None

    def nodes_of_pool(self, run: int, pool: Pool) -> list[NodeId]:
        if self._by_pool is None:
            self._by_pool = {}
            for node in self._nodes():
                self._by_pool.setdefault((node.id.run, node.pool), []).append(node.id)
        return self._by_pool.setdefault((run, pool), [])

    def twin(self, run: int, pool: Pool, identity: str) -> NodeId | None:
        if self._by_identity is None:
            self._by_identity = {}
            for node in self._nodes():
                self.seal(node)
        return self._by_identity.get((run, pool, identity))

    def add(self, node: Node) -> None:
        if self._by_pool is not None:
            self._by_pool.setdefault((node.id.run, node.pool), []).append(node.id)
        self.seal(node)

    def seal(self, node: Node) -> None:
        """Index the node's files, which no longer change; the baseline counts in all pools."""
        if self._by_identity is None or node.draft:
            return
        for pool in (node.pool,) if node.id.parent else tuple(Pool):
            self._by_identity.setdefault((node.id.run, pool, node.identity), node.id)
