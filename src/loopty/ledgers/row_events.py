"""Reads events, and writes events and pages in one transaction, sealed with their digests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loopty.kit.records import Record
from loopty.ledgers.digests import NOTHING, event_digest, seal_digest
from loopty.ledgers.row_pages import RowPages
from loopty.ledgers.rows import RowDatabase, next_place
from loopty.record.event import Recorded
from loopty.record.pages import Page

EVENT = "number, at, kind, body"
"""The columns of an event."""
LAST_SEAL = "SELECT number, digest, page_sum, seal FROM events WHERE seal IS NOT NULL ORDER BY number DESC LIMIT 1"
"""The event to which the saved pages belong: the last one, or one some events before it."""
_AT_ONCE = 5_000
_DIGESTS = "digest, page_sum, seal"


def event_rows(db: RowDatabase, after: int, columns: str = EVENT, only: str = "") -> Iterator[Any]:
    """These columns of the events with a higher number, oldest first, read some at a time."""
    query = f"SELECT {columns} FROM events WHERE number > ? {only} ORDER BY number LIMIT ?"
    while rows := db.rows(query, (after, _AT_ONCE)):
        yield from rows
        after = next_place(rows, after)


class Tail(Record):
    """The digests after the last event."""

    number: int
    event: bytes
    page_sum: bytes
    """The sum of the digests of all pages."""
    seal: bytes | None
    """Where the pages belong to this event; else they belong to an earlier one."""


class RowWriteLock:
    """A write transaction."""

    def __init__(self, db: RowDatabase, pages: RowPages, tail: Tail | None) -> None:
        self._db = db
        self._pages = pages
        self.tail = tail

    def start(self, number: int, seal: bytes | None) -> None:
        """Go on after this event with this seal: what this process left is forgotten where it was another one."""
        if self.tail and (self.tail.number, self.tail.seal) != (number, seal):
            self.tail = None

    def write(self, events: Sequence[Recorded], pages: Mapping[str, Page] | None) -> None:
        tail = self.tail or self._read_tail()
        total = self._pages.write(pages or {}, tail.page_sum, is_alone=tail is self.tail)
        if events:
            self.tail = self._add(events, tail.event, total, pages is not None)
        else:
            self.seal(total)

    def _add(self, events: Sequence[Recorded], digest: bytes, total: bytes, seals: bool) -> Tail:
        from loopty.record.families import encode_event

        rows, seal = [], None
        for item in events:
            kind, body = encode_event(item.event)
            digest = event_digest(digest, item.number, item.at, kind, body)
            if seals and item is events[-1]:  # in between, the pages do not belong to the events
                seal = seal_digest(digest, total)
            rows.append((item.number, item.at, kind, body, digest, total if seal else None, seal))
        self._db.execute_many(f"INSERT INTO events ({EVENT}, {_DIGESTS}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        return Tail(events[-1].number, digest, total, seal)

    def seal(self, total: bytes) -> None:
        """Seal the last event with this sum of all pages' digests, because the pages were saved without events."""
        self.tail = None
        last = self._db.row("SELECT number, digest FROM events ORDER BY number DESC LIMIT 1")
        if last:
            number, digest = last
            seal = seal_digest(digest, total)
            self._db.execute("UPDATE events SET page_sum = ?, seal = ? WHERE number = ?", (total, seal, number))

    def _read_tail(self) -> Tail:
        last = self._db.row("SELECT number, digest, page_sum, seal FROM events ORDER BY number DESC LIMIT 1")
        if not last:
            return Tail(0, NOTHING, NOTHING, None)
        number, digest, page_sum, seal = last
        if seal is None:
            page_sum = (self._db.row(LAST_SEAL) or (0, NOTHING, NOTHING))[2]
        return Tail(number, digest, page_sum or NOTHING, seal)
