"""The table of nodes: one row each, written with the event that changes it; lists and counts are its queries."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple, overload

from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.kit import codec
from loopty.record.database import NOTHING, Database, DigestSum, batches, row_digest, whole_number


class NodeFacts(NamedTuple):
    """What lists, counts and charts ask of every node."""

    handle: int
    place_in_run: int
    """1 for the first node of its run."""
    pool: str
    verdict: str | None
    ending: str | None
    """How the judging trial ended; None before that."""
    basis: str
    """What the score rests on: the outcome's fingerprint and the most important metric, as JSON."""
    score: float | None
    error_rate: float | None
    """Of the comparison in pairs that led to the verdict."""
    repeats: int
    """How often the node and the incumbent beside it were measured again."""
    judged: int
    """The number of the event that holds the verdict; 0 before that."""
    is_plain: int
    """Whether this is all: no result under another fingerprint, and no verdict that was taken back."""


def basis(fingerprint: str, metric: str | None) -> str:
    """Return what the score of a node rests on, as its row has it."""
    return codec.text([fingerprint, metric])


@cache
def is_about(basis: str, metric: str) -> bool:
    """Say whether the score of a node with this basis is one in this metric."""
    return bool(json.loads(basis)[1] == metric)


LONGEST_SUMMARY = 200
"""Characters of a summary in a list."""


class NodeLabel(NamedTuple):
    """What a picture of the whole run shows of a node besides its facts."""

    handle: int
    parent: int
    """The handle of the parent; 0 for a baseline."""
    added_at: float
    seconds: float
    label: str
    """Operator and summary, as JSON: no database takes every character."""


class NodeRow(NamedTuple):
    """One row. What stands before `waits` never changes."""

    handle: int
    id: str
    run: int
    pool: str
    place_in_run: int
    place_in_pool: int
    parent: int
    added_at: float
    waits: int
    """Whether the node waits for a trial."""
    identity: str | None
    """None while the node is a draft; it stays as it was known first."""
    verdict: str | None
    ending: str | None
    basis: str
    score: float | None
    error_rate: float | None
    repeats: int
    judged: int
    is_plain: int
    seconds: float
    """How long the judging trial took."""
    label: str
    body: str
    """The whole node as one line of JSON."""


_FACTS, _LABEL, _ROW = (", ".join(kind._fields) for kind in (NodeFacts, NodeLabel, NodeRow))
_DIGESTS = "facts_digest, digest"
_facts_of = itemgetter(*map(NodeRow._fields.index, NodeFacts._fields))
_CHANGING = NodeRow._fields[NodeRow._fields.index("waits") :]
_SAVE = (
    f"INSERT INTO nodes ({_ROW}, {_DIGESTS}) VALUES ({', '.join('?' * (len(NodeRow._fields) + 2))}) "
    "ON CONFLICT (handle) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in (*_CHANGING, "facts_digest", "digest"))
)
_HANDLES_AT_ONCE = 500
_POOLS = {pool.value: pool for pool in Pool}


class NodeTable:
    """The nodes of one ledger. Those of a moment are the ones up to the newest handle that was known then."""

    def __init__(self, db: Database, total: DigestSum) -> None:
        self._db = db
        self._sum = total
        self._listed: dict[tuple[int, Pool], int] = {}
        """The pools whose facts were listed, up to which handle."""
        self._edited: dict[str, None] = {}
        """The names of the nodes whose rows were read and do not match their digests."""

    @property
    def is_writing(self) -> bool:
        return self._db.is_writing

    def save(self, rows: Sequence[NodeRow]) -> None:
        """Add and change nodes. Nodes that are there keep their places and, once it is known, their identity."""
        places: dict[tuple[int, str], int] = {}
        old = self._saved([row.handle for row in rows])
        values = []
        for new in rows:
            digest, identity, place, parent = old.get(new.handle) or (NOTHING, None, 0, new.parent)
            if not place:
                pool = new.run, new.pool
                known = places.get(pool)
                place = places[pool] = 1 + (self.pool_size(*pool) if known is None else known)
            row = new._replace(identity=identity or new.identity, place_in_pool=place, parent=parent)
            digests = _digests(row)
            self._sum.replace(digest, digests[1])
            values.append((*row, *digests))
        self._db.execute_many(_SAVE, values)

    def _saved(self, handles: Sequence[int]) -> dict[int, Any]:
        """Return what stays of the rows that are there."""
        found = self._of_handles("handle, digest, identity, place_in_pool, parent", handles)
        return {handle: known for handle, *known in found}

    def clear(self) -> None:
        self._db.execute("DELETE FROM nodes")

    def body(self, node: NodeId) -> str | None:
        """Return the node as one line of JSON; None if there is no such node."""
        row = self._db.row(f"SELECT {_ROW}, {_DIGESTS} FROM nodes WHERE id = ?", (node,))
        return self._body_after_check(row) if row else None

    def bodies(self, count: int) -> Iterator[tuple[NodeId, str]]:
        """Yield so many nodes, each as one line of JSON, in the order in which they were added."""
        # Without a look at their digests, which takes longer than the rest: `status` and `report` check them.
        query = "SELECT handle, id, body FROM nodes WHERE handle <= ? AND handle > ? ORDER BY handle LIMIT ?"
        return ((NodeId(node), body) for _, node, body in batches(self._db, query, (count,)))

    def count(self) -> int:
        return whole_number(self._db, "SELECT coalesce(max(handle), 0) FROM nodes")

    def ids(self, count: int) -> Iterator[NodeId]:
        """Yield so many ids, in the order in which the nodes were added."""
        query = "SELECT handle, id FROM nodes WHERE handle <= ? AND handle > ? ORDER BY handle LIMIT ?"
        return (NodeId(node) for _, node in batches(self._db, query, (count,)))

    def newest(self, run: int, pools: Iterable[Pool], count: int) -> Iterator[NodeId]:
        """Yield the ids of the nodes of a run in these pools, the newest first."""
        by_pool = (self._newest_of_pool(run, pool, self.pool_size(run, pool.value, count)) for pool in pools)
        return (node for _, node in heapq.merge(*by_pool, reverse=True))

    def _newest_of_pool(self, run: int, pool: Pool, size: int) -> Iterator[tuple[int, NodeId]]:
        query = (
            "SELECT handle, id FROM nodes WHERE run = ? AND pool = ? AND place_in_pool > ? AND place_in_pool <= ? "
            "ORDER BY place_in_pool DESC"
        )
        for stop in range(size, 0, -_HANDLES_AT_ONCE):
            rows = self._db.rows(query, (run, pool.value, max(stop - _HANDLES_AT_ONCE, 0), stop))
            yield from ((handle, NodeId(node)) for handle, node in rows)

    def children(self, run: int, count: int) -> list[tuple[int, str, int]]:
        """Return how many children there are, by the handle of their parent and their pool; parents by age."""
        query = (
            "SELECT parent, pool, count(*) FROM nodes WHERE run = ? AND handle <= ? "
            "GROUP BY parent, pool ORDER BY parent"
        )
        return self._db.rows(query, (run, count))

    def of_handles(self, handles: Sequence[int]) -> Mapping[int, NodeId]:
        """Look up the nodes with these handles; those that do not exist are left out."""
        return {handle: NodeId(node) for handle, node in self._of_handles("handle, id", handles)}

    def pool_size(self, run: int, pool: str, count: int | None = None) -> int:
        """Count the nodes of one pool of one run, up to the handle `count`."""
        query = (
            "SELECT place_in_pool FROM nodes WHERE run = ? AND pool = ? AND handle <= ? "
            "ORDER BY place_in_pool DESC LIMIT 1"
        )
        row = self._db.row(query, (run, pool, 2**62 if count is None else count))
        return int(row[0]) if row else 0

    def nodes_of_pool(self, run: int, pool: Pool, start: int, stop: int) -> list[NodeId]:
        """List the nodes of one pool of one run from place `start` to before `stop`, oldest first."""
        query = (
            "SELECT id FROM nodes WHERE run = ? AND pool = ? AND place_in_pool > ? AND place_in_pool <= ? "
            "ORDER BY place_in_pool"
        )
        return [NodeId(node) for (node,) in self._db.rows(query, (run, pool.value, start, stop))]

    def twins(self, run: int, identity: str) -> list[tuple[NodeId, Pool]]:
        """List the nodes of this run that are the same experiment, each with its pool, oldest first."""
        query = "SELECT id, pool FROM nodes WHERE identity = ? AND run = ? ORDER BY handle"
        return [(NodeId(node), _POOLS[pool]) for node, pool in self._db.rows(query, (identity, run))]

    def waiting(self, run: int, pool: Pool) -> list[NodeId]:
        """List the nodes that wait for a trial, oldest first."""
        query = "SELECT id FROM nodes WHERE run = ? AND pool = ? AND waits = 1 ORDER BY handle"
        return [NodeId(node) for (node,) in self._db.rows(query, (run, pool.value))]

    def facts(self, run: int, pool: Pool, count: int) -> Iterator[NodeFacts]:
        """Yield the facts of the nodes of one pool of one run, oldest first."""
        self._listed[run, pool] = count
        return (NodeFacts._make(row[1:]) for row in self._of_pool(_FACTS, run, pool, count))

    def facts_of(self, handles: Sequence[int]) -> Iterator[tuple[int, NodeFacts]]:
        """Yield the facts of the nodes with these handles, each with its run."""
        for run, *facts, digest in self._of_handles(f"run, {_FACTS}, facts_digest", handles):
            if row_digest(run, *facts) != digest:
                self._edited[f"node {self.of_handles(facts[:1])[facts[0]]}"] = None
            yield run, NodeFacts._make(facts)

    def labels(self, run: int, pool: Pool, count: int) -> Iterator[NodeLabel]:
        """Yield the labels of the nodes of one pool of one run, oldest first."""
        return (NodeLabel._make(row) for _, *row in self._of_pool(_LABEL, run, pool, count))

    def _of_pool(self, columns: str, run: int, pool: Pool, count: int) -> Iterator[Any]:
        query = (
            f"SELECT place_in_pool, {columns} FROM nodes WHERE run = ? AND pool = ? AND place_in_pool <= ? "
            "AND place_in_pool > ? ORDER BY place_in_pool LIMIT ?"
        )
        return batches(self._db, query, (run, pool.value, self.pool_size(run, pool.value, count)))

    def first_edit_seen(self) -> str | None:
        """Name the first node that was read, by itself or in a list, and does not match its digest."""
        # Here and not while a list is made: it takes as long as the list, and few verbs ask.
        for (run, pool), count in self._listed.items():
            for _, *facts, digest in self._of_pool(f"{_FACTS}, facts_digest", run, pool, count):
                if row_digest(run, *facts) != digest:
                    self._edited[f"node {self.of_handles(facts[:1])[facts[0]]}"] = None
        return next(iter(self._edited), None)

    def sum_digests(self, total: DigestSum) -> None:
        """Add up the digests of all rows, and look for edits in them."""
        query = f"SELECT {_ROW}, {_DIGESTS} FROM nodes WHERE handle > ? ORDER BY handle LIMIT ?"
        for row in batches(self._db, query):
            self._body_after_check(row)
            total.replace(NOTHING, row[-1])

    def check_newest(self, count: int) -> None:
        """Look for edits in so many of the newest nodes."""
        query = f"SELECT {_ROW}, {_DIGESTS} FROM nodes ORDER BY handle DESC LIMIT ?"
        for row in self._db.rows(query, (count,)):
            self._body_after_check(row)

    def _of_handles(self, columns: str, handles: Sequence[int]) -> Iterator[Any]:
        for start in range(0, len(handles), _HANDLES_AT_ONCE):
            some = handles[start : start + _HANDLES_AT_ONCE]
            yield from self._db.rows(f"SELECT {columns} FROM nodes WHERE handle IN ({_marks(some)})", some)

    def _body_after_check(self, row: Any) -> str:
        *columns, facts_digest, digest = row
        found = NodeRow._make(columns)
        if _digests(found) != (facts_digest, digest):
            self._edited[f"node {found.id}"] = None
        return str(found.body)


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _digests(row: NodeRow) -> tuple[bytes, bytes]:
    """Return the digest of the facts, which lists check, and that of the whole row."""
    facts = row_digest(row.run, *_facts_of(row))
    return facts, row_digest(facts, *row)


_AT_ONCE = 10_000


class PoolNodes(Sequence[NodeId]):
    """The ids of one pool of one run, oldest first, read when they are asked for."""

    def __init__(self, table: NodeTable, run: int, pool: Pool, count: int) -> None:
        """`count`: the newest handle, because the nodes of this moment are meant."""
        self._table = table
        self._run, self._pool = run, pool
        self._size = table.pool_size(run, pool.value, count)

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> NodeId: ...
    @overload
    def __getitem__(self, index: slice) -> list[NodeId]: ...

    def __getitem__(self, index: int | slice) -> NodeId | list[NodeId]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._size)
            return list(self)[index] if step != 1 else self._between(start, stop)
        place = range(self._size)[index]
        return self._between(place, place + 1)[0]

    def __iter__(self) -> Iterator[NodeId]:
        for start in range(0, self._size, _AT_ONCE):
            yield from self._between(start, min(start + _AT_ONCE, self._size))

    def __reversed__(self) -> Iterator[NodeId]:
        for stop in range(self._size, 0, -_AT_ONCE):
            yield from reversed(self._between(max(stop - _AT_ONCE, 0), stop))

    def _between(self, start: int, stop: int) -> list[NodeId]:
        return self._table.nodes_of_pool(self._run, self._pool, start, stop)
