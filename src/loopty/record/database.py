"""A database as a ledger uses it: rows, one writer at a time, and digests that show edits by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from msgspec import msgpack

from loopty.domain.errors import Misuse
from loopty.kit.contents import blake2b

T = TypeVar("T")
_MOST = 100_000_000
"""More than any ledger has nodes, and few enough for a list."""


UNREADABLE = (ArithmeticError, AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)
"""What reading a record raises that no version of loopty wrote."""
LEDGER_REMEDY = (
    "Put back a copy of it, or move it away to begin a new one (`loopty config ledger` says where it is); the commits of "
    "nodes are in git, whatever the ledger says"
)


def damaged(what: str) -> Misuse:
    """Return the error for a record that cannot be read."""
    return Misuse(f"the ledger was changed by hand: the record of {what} is damaged. {LEDGER_REMEDY}")


class LedgerBusy(Misuse):
    """Another process holds the write lock for longer than this one waits."""


class Database(Protocol):
    """One database. Parameters of a query are question marks. Its errors are Misuse, with the remedy."""

    reads_only: bool
    """Whether this process cannot write to it."""
    call_events: str
    """The condition on events that are about model calls, and perhaps on others."""
    is_writing: bool
    """Whether a write is open, or nobody else can see this database."""

    def close(self) -> None:
        """Give back what this process holds of it."""
        ...

    def now(self) -> float:
        """Return the seconds since the epoch, by the clock of the database."""
        ...

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of this query."""
        ...

    def row(self, query: str, parameters: Sequence[Any] = ()) -> Any:
        """Return the first row of this query, or None."""
        ...

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> None: ...

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None: ...

    def read(self, question: Callable[[], T]) -> T:
        """Answer a question from one moment of the database; also inside a write."""
        ...

    def write(self) -> AbstractContextManager[None]:
        """Wait until nobody else writes. What is written is durable when the block ends, and gone if it raises."""
        ...

    def short_waits(self) -> AbstractContextManager[None]:
        """Let `write` raise LedgerBusy after a second, inside the block."""
        ...


def next_place(rows: Sequence[Any], last: int) -> int:
    """Return the first column of the last row, to read on from. Raises Misuse if that would never end."""
    place = rows[-1][0]
    if type(place) is not int or place <= last:
        raise Misuse("the ledger's database gives rows that do not follow each other: it is damaged, or no ledger")
    return place


def whole_number(db: Database, query: str, parameters: Sequence[Any] = ()) -> int:
    """Return the one number that this query gives. Raises Misuse if there is none."""
    row = db.row(query, parameters)
    if not row or type(row[0]) is not int or not 0 <= row[0] < _MOST:
        raise Misuse("the ledger's database gives no number where one is due: it is damaged, or no ledger")
    number: int = row[0]
    return number


def batches(db: Database, query: str, parameters: Sequence[Any] = (), at_once: int = 10_000) -> Iterator[Any]:
    """Yield the rows of a query in the order of their first column, read some at a time: no one waits for all.

    The last two parameters of the query are the place after which it starts, and how many rows it gives.
    """
    last = 0
    while rows := db.rows(query, (*parameters, last, at_once)):
        yield from rows
        last = next_place(rows, last)


# Each event has the digest of itself and of the digest before it. Rows of runs and nodes change, so theirs are
# added up: replacing a row subtracts its old digest and adds the new one, at the same cost whatever the length of
# the record. One seal covers the last event and the sum of the rows. There is no key: whoever computes all of this
# again is not noticed.


NOTHING = b"\0" * 16
"""The digest before the first event, and the sum of no rows."""
_MODULUS = 1 << 128
_encode = msgpack.Encoder().encode


def event_digest(before: bytes, number: int, at: float, kind: str, body: str) -> bytes:
    text = f"{number} {at!r} {kind}\n{body}"
    return blake2b(before + text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def row_digest(*columns: object) -> bytes:
    # No two rows have the same bytes in MessagePack, and making them takes a tenth of the time of a text.
    return blake2b(_encode(columns), digest_size=16).digest()


def seal_digest(last_event: bytes, total: bytes) -> bytes:
    return blake2b(last_event + total, digest_size=16).digest()


class DigestSum:
    """The sum of the digests of all rows of runs and nodes, as the open write changes it."""

    def __init__(self) -> None:
        self._value = 0

    def set(self, total: bytes) -> None:
        self._value = int.from_bytes(total, "big")

    def replace(self, old: bytes, new: bytes) -> None:
        """Count a row whose digest was `old` and is `new`; NOTHING stands for no row."""
        self._value += int.from_bytes(new, "big") - int.from_bytes(old, "big")

    @property
    def total(self) -> bytes:
        return (self._value % _MODULUS).to_bytes(16, "big")
