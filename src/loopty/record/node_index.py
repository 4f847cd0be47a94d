"""Which nodes a pool has, and which of them are the same experiment; made when somebody first asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from loopty.domain.ids import NodeId
from loopty.domain.outcome import Pool
from loopty.record.records import Node


class Index:
    """Of the nodes of a history, all of which `nodes` gives, oldest first."""

    def __init__(self, nodes: Callable[[], Iterable[Node]]) -> None:
        self._nodes = nodes
        self._lanes: dict[tuple[int, Pool], list[NodeId]] | None = None
        self._identities: dict[tuple[int, Pool, str], NodeId] | None = None

    def lane(self, run: int, pool: Pool) -> list[NodeId]:
        if self._lanes is None:
            self._lanes = {}
            for node in self._nodes():
                self._lanes.setdefault((node.id.run, node.pool), []).append(node.id)
        return self._lanes.setdefault((run, pool), [])

    def twin(self, run: int, pool: Pool, digest: str) -> NodeId | None:
        if self._identities is None:
            self._identities = {}
            for node in self._nodes():
                self.sealed(node)
        return self._identities.get((run, pool, digest))

    def added(self, node: Node) -> None:
        if self._lanes is not None:
            self._lanes.setdefault((node.id.run, node.pool), []).append(node.id)
        self.sealed(node)

    def sealed(self, node: Node) -> None:
        """From now on the node's files stay as they are; the baseline's experiment is one of all pools."""
        if self._identities is None or node.draft:
            return
        for pool in (node.pool,) if node.id.parent else tuple(Pool):
            self._identities.setdefault((node.id.run, pool, node.identity), node.id)
