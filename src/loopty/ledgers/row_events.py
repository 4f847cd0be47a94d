"""Reads events, and writes events and pages in one transaction, sealed with their digests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loopty.kit.dataclass import dataclass
from loopty.ledgers.digests import NOTHING, event_digest, seal_digest
from loopty.ledgers.row_pages import RowPages
from loopty.ledgers.rows import RowDatabase
from loopty.record.event import Recorded
from loopty.record.pages import Page

EVENT = "number, at, kind, body"
"""The columns of an event."""
_AT_ONCE = 5_000
_DIGESTS = "digest, page_sum, seal"


def event_rows(db: RowDatabase, after: int, columns: str = EVENT, only: str = "") -> Iterator[Any]:
    """These columns of the events with a higher number, oldest first, read some at a time."""
    query = f"SELECT {columns} FROM events WHERE number > ? {only} ORDER BY number LIMIT ?"
    while rows := db.rows(query, (after, _AT_ONCE)):
        yield from rows
        after = rows[-1][0]


@dataclass(frozen=True, slots=True)
class Tail:
    """The digests after the last event."""

    number: int
    event: bytes
    page_sum: bytes


class RowWriteLock:
    """A write transaction."""

    def __init__(self, db: RowDatabase, pages: RowPages, tail: Tail | None) -> None:
        self._db = db
        self._pages = pages
        self.tail = tail

    def write(self, events: Sequence[Recorded], pages: Mapping[str, Page]) -> None:
        from loopty.record.families import encode_event

        tail = self._tail_before(events[0].number)
        total = self._pages.write(pages, tail.page_sum, is_alone=tail is self.tail)
        digest, rows = tail.event, []
        for item in events:
            kind, body = encode_event(item.event)
            digest = event_digest(digest, item.number, item.at, kind, body)
            # Only the last one is sealed: in between, the pages do not belong to the events.
            seals = (total, seal_digest(digest, total)) if item is events[-1] else (None, None)
            rows.append((item.number, item.at, kind, body, digest, *seals))
        self._db.execute_many(f"INSERT INTO events ({EVENT}, {_DIGESTS}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        self.tail = Tail(events[-1].number, digest, total)

    def seal(self, total: bytes) -> None:
        """Seal the last event with this sum of all pages' digests, because the pages were rebuilt."""
        self.tail = None
        last = self._db.row("SELECT number, digest FROM events ORDER BY number DESC LIMIT 1")
        if last:
            number, digest = last
            seal = seal_digest(digest, total)
            self._db.execute("UPDATE events SET page_sum = ?, seal = ? WHERE number = ?", (total, seal, number))

    def _tail_before(self, number: int) -> Tail:
        if self.tail and self.tail.number == number - 1:  # nobody else has written since
            return self.tail
        last = self._db.row("SELECT number, digest, page_sum FROM events ORDER BY number DESC LIMIT 1")
        return Tail(last[0], last[1], last[2] or NOTHING) if last else Tail(0, NOTHING, NOTHING)
