"""A database as a ledger uses it: rows, one writer at a time, and digests that show edits by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from loopty.domain.errors import Misuse
from loopty.kit.contents import blake2b

T = TypeVar("T")
_MOST = 100_000_000
"""More than any ledger has nodes, and few enough for a list."""


class LedgerBusy(Misuse):
    """Another process holds the write lock for longer than this one waits."""


class RowDatabase(Protocol):
    """One database. Parameters of a query are question marks. Its errors are Misuse, with the remedy."""

    reads_only: bool
    """Whether this process cannot write to it."""
    call_events: str
    """The condition on events that are about model calls, and perhaps on others."""

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

    def content_mark(self) -> int | None:
        """Return a number that differs after any write, for use inside or after writes; None if there is none."""
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


def whole_number(db: RowDatabase, query: str, parameters: Sequence[Any] = ()) -> int:
    """Return the one number that this query gives. Raises Misuse if there is none."""
    row = db.row(query, parameters)
    if not row or type(row[0]) is not int or not 0 <= row[0] < _MOST:
        raise Misuse("the ledger's database gives no number where one is due: it is damaged, or no ledger")
    number: int = row[0]
    return number


# Each event has the digest of itself and of the digest before it. Pages change, so theirs are added up: replacing
# a page subtracts its old digest and adds the new one, at the same cost whatever the length of the record. One
# seal covers the last event and the sum of the pages. There is no key: whoever computes all of this
# again is not noticed.


NOTHING = b"\0" * 16
"""The digest before the first event, and the sum of no pages."""
_MODULUS = 1 << 128


def event_digest(before: bytes, number: int, at: float, kind: str, body: str) -> bytes:
    text = f"{number} {at!r} {kind}\n{body}"
    return blake2b(before + text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def page_digest(key: str, body: str) -> bytes:
    return blake2b(f"{key}\n{body}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def replace_in_sum(total: bytes, old: bytes, new: bytes) -> bytes:
    """Return the sum after the page with digest `old` got digest `new`; a page that was not there has NOTHING."""
    value = int.from_bytes(total, "big") - int.from_bytes(old, "big") + int.from_bytes(new, "big")
    return (value % _MODULUS).to_bytes(16, "big")


def digest_sum(digests: Iterable[bytes]) -> bytes:
    """Compute the sum of these digests."""
    return (sum(int.from_bytes(digest, "big") for digest in digests) % _MODULUS).to_bytes(16, "big")


def seal_digest(last_event: bytes, total: bytes) -> bytes:
    return blake2b(last_event + total, digest_size=16).digest()
