"""The nodes of one pool as a sequence whose items are read when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.record.pages import SavedNodes

_AT_ONCE = 10_000


class PoolNodes(Sequence[NodeId]):
    """The ids of one pool of one run, oldest first: the saved ones, then those that are not saved yet."""

    def __init__(self, saved: SavedNodes, run: int, pool: Pool, unsaved: Sequence[NodeId]) -> None:
        self._saved = saved
        self._run, self._pool = run, pool
        self._saved_count = saved.pool_size(run, pool)
        self._unsaved = unsaved

    def __len__(self) -> int:
        return self._saved_count + len(self._unsaved)

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
        return [*saved, *self._unsaved[max(start - count, 0) : max(stop - count, 0)]]
