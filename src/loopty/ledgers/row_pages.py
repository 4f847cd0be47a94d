"""The pages of the fold in a database: written with the events, read one by one, found by their place.

A database walks over what OFFSET leaves out. Handles count all nodes, in the order in which they were added, so
where the nodes of a pool follow each other without another one between, the position gives the handle. Elsewhere
the walk leaves marks, and the next one begins at the nearest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.ledgers.rows import (
    NOTHING,
    RowDatabase,
    digest_sum,
    next_place,
    page_digest,
    replace_in_sum,
    whole_number,
)
from loopty.record.pages import FACTS_KEY, RUN_KEY, Page, facts_key

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
        """Find where a walk to this position of `size` begins: at most LONGEST_WALK rows before it."""
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


_AT_ONCE = 10_000
_HANDLES_AT_ONCE = 500
_MOST_WRITTEN = 1_000
_CHECKED = "key, body, handle, run, pool, waits, identity, facts, digest"
_FACTS = 7
"""The place of the facts among these columns."""
_OF_KIND = f"SELECT {_CHECKED} FROM pages WHERE key >= ? AND key < ?"
_POOLS = {pool.value: pool for pool in Pool}


class RowPages:
    """The pages of one ledger: the `SavedNodes` of its histories, and how they are written."""

    def __init__(self, db: RowDatabase) -> None:
        self._db = db
        self._pool_sizes: dict[tuple[int, Pool], tuple[int, int]] = {}
        """The size of a pool up to a handle: the handle, and the size."""
        self._places = PoolPlaces(db)
        self._changed: dict[str, None] = {}
        """The keys of pages that were read and do not match their digests."""
        self._written: dict[str, tuple[bytes, str | None]] = {}
        """Digest and identity of pages that this process wrote last, while nobody else has written."""

    def runs(self) -> dict[str, str]:
        """Return the pages of all runs, by key."""
        rows = self._db.rows(f"{_OF_KIND} ORDER BY place", _range_of(RUN_KEY))
        return {row[0]: self._body_after_check(row) for row in rows}

    def page(self, node: NodeId) -> str | None:
        return self._body(str(node))

    def pages(self) -> Iterator[tuple[NodeId, str]]:
        query = f"SELECT handle, {_CHECKED} FROM pages WHERE handle > ? ORDER BY handle LIMIT ?"
        for rows in self._batches(query):
            yield from ((NodeId(row[1]), self._body_after_check(row[1:])) for row in rows)

    def tree_facts(self, node: NodeId) -> str | None:
        rows = self._db.rows(f"SELECT {_CHECKED} FROM pages WHERE key = ?", (str(node),))
        for row in rows:
            self._body_after_check(row)
        return next((str(row[_FACTS]) for row in rows), None)

    def all_tree_facts(self) -> Iterator[tuple[NodeId, str]]:
        # Their digests cover the pages as well, which would have to be read: `status` and `report` check both.
        query = "SELECT handle, key, facts FROM pages WHERE handle > ? ORDER BY handle LIMIT ?"
        for rows in self._batches(query):
            yield from [(NodeId(key), facts) for _, key, facts in rows]

    def count(self) -> int:
        return whole_number(self._db, "SELECT coalesce(max(handle), 0) FROM pages WHERE handle IS NOT NULL")

    def ids(self) -> Iterator[NodeId]:
        query = "SELECT handle, key FROM pages WHERE handle > ? ORDER BY handle LIMIT ?"
        yield from (NodeId(key) for rows in self._batches(query) for _, key in rows)

    def node_of_handle(self, handle: int) -> NodeId | None:
        found = self._db.row("SELECT key FROM pages WHERE handle = ?", (handle,))
        return NodeId(found[0]) if found else None

    def pool_size(self, run: int, pool: Pool, newest: int) -> int:
        # Nodes are only ever added, so that only those between this question and the last one are counted.
        last, size = self._pool_sizes.get((run, pool), (0, 0))
        if newest != last:
            query = "SELECT count(*) FROM pages WHERE run = ? AND pool = ? AND handle > ? AND handle <= ?"
            between = whole_number(self._db, query, (run, pool.value, *sorted((last, newest))))
            size += between if newest > last else -between
            self._pool_sizes[run, pool] = newest, size
        return size

    def nodes_of_pool(self, run: int, pool: Pool, start: int, stop: int) -> Sequence[NodeId]:
        size = self.pool_size(run, pool, self.count())
        is_near_end = size - stop < min(start, LONGEST_WALK)
        order, least, offset = "DESC", 0, size - stop
        if not is_near_end:
            order, (least, offset) = "ASC", self._places.nearest(run, pool, start, size)
        query = (
            "SELECT key FROM pages WHERE run = ? AND pool = ? AND handle >= ? "
            f"ORDER BY handle {order} LIMIT ? OFFSET ?"
        )
        rows = self._db.rows(query, (run, pool.value, least, stop - start, offset))
        found = [NodeId(key) for (key,) in rows]
        return found[::-1] if is_near_end else found

    def twins(self, run: int, identity: str) -> Sequence[tuple[NodeId, Pool]]:
        query = "SELECT key, pool FROM pages WHERE identity = ? AND run = ? ORDER BY handle"
        rows = self._db.rows(query, (identity, run))
        return [(NodeId(key), _POOLS[pool]) for key, pool in rows]

    def waiting_nodes(self, run: int, pool: Pool) -> Sequence[NodeId]:
        query = "SELECT key FROM pages WHERE run = ? AND pool = ? AND waits = 1 ORDER BY handle"
        rows = self._db.rows(query, (run, pool.value))
        return [NodeId(key) for (key,) in rows]

    def nodes_of_handles(self, handles: Sequence[int]) -> Mapping[int, NodeId]:
        found: dict[int, NodeId] = {}
        for start in range(0, len(handles), _HANDLES_AT_ONCE):
            some = handles[start : start + _HANDLES_AT_ONCE]
            query = f"SELECT handle, key FROM pages WHERE handle IN ({', '.join('?' * len(some))})"
            found |= {handle: NodeId(key) for handle, key in self._db.rows(query, some)}
        return found

    def facts_page(self, block: int) -> str | None:
        return self._body(facts_key(block))

    def facts_pages(self) -> Iterator[tuple[int, str]]:
        rows = self._db.rows(f"{_OF_KIND} ORDER BY key", _range_of(FACTS_KEY))
        for row in rows:
            yield int(row[0].removeprefix(FACTS_KEY)), self._body_after_check(row)

    def write(self, pages: Mapping[str, Page], total: bytes, *, is_alone: bool = False) -> bytes:
        """Save the pages; returns the sum of all pages' digests, which was `total` before.

        `is_alone`: nobody else has written since this process did.
        """
        if not is_alone or len(self._written) > _MOST_WRITTEN:
            self._written.clear()
        for key, page in pages.items():
            total = self._write_page(key, page, total)
        return total

    def clear(self) -> None:
        self._db.execute("DELETE FROM pages")
        self.forget()

    def forget(self) -> None:
        """Ask for everything anew, because nodes were removed or a write was undone."""
        self._pool_sizes.clear()
        self._places.forget()
        self._written.clear()

    def first_change_seen(self) -> str | None:
        """Return the key of the first page that was read and does not match its digest."""
        return next(iter(self._changed), None)

    def first_change(self) -> str | bytes:
        """Return the key of the first page that does not match its digest, or the sum of all digests."""
        digests: list[bytes] = []
        query = f"SELECT place, {_CHECKED} FROM pages WHERE place > ? ORDER BY place LIMIT ?"
        for _, *row in (row for rows in self._batches(query) for row in rows):
            digests.append(_digest(row))
            if digests[-1] != row[-1]:
                return str(row[0])
        return digest_sum(digests)

    def first_change_among_newest(self, count: int) -> str | None:
        """Return the first changed key among the runs, so many of the newest nodes, and what was read."""
        self.runs()
        query = f"SELECT {_CHECKED} FROM pages WHERE handle IS NOT NULL ORDER BY handle DESC LIMIT ?"
        for row in self._db.rows(query, (count,)):
            self._body_after_check(row)
        return self.first_change_seen()

    def _batches(self, query: str) -> Iterator[list[Any]]:
        """Yield the rows of a query in the order of their first column, some at a time: no one waits for all."""
        last = 0
        while rows := self._db.rows(query, (last, _AT_ONCE)):
            yield rows
            last = next_place(rows, last)

    def _body(self, key: str) -> str | None:
        rows = self._db.rows(f"SELECT {_CHECKED} FROM pages WHERE key = ?", (key,))
        return next((self._body_after_check(row) for row in rows), None)

    def _body_after_check(self, row: Any) -> str:
        key, body, *_, digest = row
        if _digest(row) != digest:
            self._changed[key] = None
        return str(body)

    def _write_page(self, key: str, page: Page, total: bytes) -> bytes:
        before = self._written.get(key) or self._db.row("SELECT digest, identity FROM pages WHERE key = ?", (key,))
        old_digest, old_identity = before or (NOTHING, None)
        columns: tuple[Any, ...]
        if place := page.place:
            identity = place.identity or old_identity
            columns = (place.handle, place.run, place.pool.value, int(place.waits), identity, place.tree_facts)
        else:
            identity, columns = None, (None, None, None, None, None, None)
        digest = _digest((key, page.body, *columns))
        if before is None:
            query = f"INSERT INTO pages ({_CHECKED}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
            self._db.execute(query, (key, page.body, *columns, digest))
        else:
            query = "UPDATE pages SET body = ?, waits = ?, facts = ?, digest = ? WHERE key = ?"
            self._db.execute(query, (page.body, columns[3], columns[5], digest, key))
            if identity != old_identity:
                self._db.execute("UPDATE pages SET identity = ? WHERE key = ?", (identity, key))
        self._written[key] = digest, identity
        return replace_in_sum(total, old_digest, digest)


def _range_of(prefix: str) -> tuple[str, str]:
    """Return the smallest key with this prefix, and the first one after all of them."""
    return prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)


def _digest(row: Sequence[Any]) -> bytes:
    key, body, handle, run, pool, waits, identity, facts = row[:8]
    place = "" if handle is None else f"\n{handle} {run} {pool} {waits} {identity} {facts}"
    return page_digest(key, f"{body}{place}")
