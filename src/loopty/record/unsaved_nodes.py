"""The nodes that were added or sealed since the ledger last saved the fold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.record.node_record import Node


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
        """The node's identity, where it became known since the last save."""
        return self._identities.get(node)

    def clear(self) -> None:
        self._new.clear()
        self._by_identity.clear()
        self._identities.clear()
