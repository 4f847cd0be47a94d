"""Finds the node at a position of a pool without a walk over all before it.

A database walks over what OFFSET leaves out. Handles count all nodes, in the order in which they were added, so
where the nodes of a pool follow each other without another one between, the position gives the handle. Elsewhere
the walk leaves marks, and the next one begins at the nearest.
"""

from __future__ import annotations

from typing import NamedTuple

from loopty.domain.pool import Pool
from loopty.ledgers.rows import RowDatabase, whole_number

LONGEST_WALK = 8_192
"""Rows between two marks."""


class Start(NamedTuple):
    """Where to begin: at the first node with this handle or a later one, after leaving out some."""

    handle: int
    offset: int


class PoolPlaces:
    """The marks of one ledger's pools. Nodes are only ever added, so that a mark holds until `forget`."""

    def __init__(self, db: RowDatabase) -> None:
        self._db = db
        self._marks: dict[tuple[int, Pool], list[int]] = {}
        """Of each pool the handles at the positions 0, LONGEST_WALK, twice that, and so on, as far as known."""

    def nearest(self, run: int, pool: Pool, position: int, size: int) -> Start:
        """Where a walk to this position begins: at most LONGEST_WALK rows before it. The pool has `size` nodes."""
        if position < LONGEST_WALK:
            return Start(0, position)
        first, last = (self._end(run, pool, order) for order in ("ASC", "DESC"))
        if last - first + 1 == size:
            return Start(first + position, 0)
        marks = self._marks.setdefault((run, pool), [first])
        while len(marks) * LONGEST_WALK <= position:
            marks.append(self._next_mark(run, pool, marks[-1]))
        return Start(marks[position // LONGEST_WALK], position % LONGEST_WALK)

    def forget(self) -> None:
        self._marks.clear()

    def _end(self, run: int, pool: Pool, order: str) -> int:
        query = (
            f"SELECT handle FROM pages WHERE run = ? AND pool = ? AND handle >= 0 ORDER BY handle {order} LIMIT 1"
        )
        return whole_number(self._db, query, (run, pool.value))

    def _next_mark(self, run: int, pool: Pool, handle: int) -> int:
        query = (
            "SELECT handle FROM pages WHERE run = ? AND pool = ? AND handle >= ? ORDER BY handle LIMIT 1 OFFSET ?"
        )
        return whole_number(self._db, query, (run, pool.value, handle, LONGEST_WALK))
