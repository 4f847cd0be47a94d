"""The nodes of one pool as a sequence whose items are read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.record.pages import SavedNodes

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
        """The nodes of a pool: the saved ones up to the short name `newest`, and the unsaved ones."""
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
