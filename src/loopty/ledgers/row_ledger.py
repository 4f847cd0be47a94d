"""A ledger in any database with rows: many processes, one durable commit per decision, edits by hand found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from loopty.domain.errors import Misuse
from loopty.kit.records import Record
from loopty.ledgers.row_pages import RowPages
from loopty.ledgers.rows import NOTHING, LedgerBusy, RowDatabase, event_digest, next_place, seal_digest
from loopty.record.calls import is_about_calls
from loopty.record.fold import Recorded
from loopty.record.history import FOLD_VERSION, History, encode_event
from loopty.record.ledger import OnProgress
from loopty.record.node_facts import BLOCK_SIZE
from loopty.record.pages import FACTS_KEY, RUN_KEY, Page

EVENT = "number, at, kind, body"
"""The columns of an event."""
LAST_SEAL = "SELECT number, digest, page_sum, seal FROM events WHERE seal IS NOT NULL ORDER BY number DESC LIMIT 1"
"""The event to which the saved pages belong: the last one, or one some events before it."""
_AT_ONCE = 5_000
_DIGESTS = "digest, page_sum, seal"


def event_rows(db: RowDatabase, after: int, columns: str = EVENT, only: str = "") -> Iterator[Any]:
    """Yield these columns of the events with a higher number, oldest first, read some at a time."""
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


def record_flaw(
    db: RowDatabase, pages: RowPages, newest_events: int | None, newest_nodes: int | None
) -> str | None:
    """Tell what was changed in all events and pages, in the newest ones, or in a page that was read; or None."""
    last, fault = _check_events(db, newest_events)
    if fault:
        return fault
    _, sealed, total, seal = db.row(LAST_SEAL) or (0, NOTHING, NOTHING, None)
    if newest_nodes is None or pages.count() <= newest_nodes:
        found = pages.first_change()
        changed, total = (found, total) if isinstance(found, str) else (None, found)
    else:
        changed = pages.first_change_among_newest(newest_nodes)
    if changed := changed or pages.first_change_seen():
        return f"the record of {_page_name(changed)} was changed"
    if (seal_digest(sealed, total or NOTHING) if last != NOTHING else None) != seal:
        return "events or nodes were added or removed"
    return None


def _check_events(db: RowDatabase, newest: int | None) -> tuple[bytes, str | None]:
    """Return the digest of the last event, and what was changed in all events or in the newest ones, or None."""
    start: Any = None
    if newest is not None:
        before = "SELECT number, digest FROM events ORDER BY number DESC LIMIT 1 OFFSET ?"
        start = db.row(before, (newest,))
    after, last = start or (0, NOTHING)
    for number, at, kind, body, digest in event_rows(db, after, f"{EVENT}, digest"):
        last = event_digest(last, number, at, kind, body)
        if last != digest:
            return last, f"event {number} was changed, or one before it removed"
    return last, None


def _page_name(key: str) -> str:
    """Tell what the page with this key is about, in words."""
    if key.startswith(FACTS_KEY):
        first = int(key.removeprefix(FACTS_KEY)) * BLOCK_SIZE + 1
        return f"the nodes #{first} to #{first + BLOCK_SIZE - 1}"
    return key if key.startswith(RUN_KEY) else f"node {key}"


_LAST_EVENT = "SELECT number, seal FROM events ORDER BY number DESC LIMIT 1"
_FOLD_AND_LAST_EVENT = f"SELECT version, last.number, seal FROM fold LEFT JOIN ({_LAST_EVENT}) AS last ON true"
_EVENTS_PER_SAVE = 20_000
"""While pages are rebuilt."""


class RowLedger:
    """Events and the pages of their fold. Use it from one thread; any number of processes may open it."""

    def __init__(self, database: RowDatabase) -> None:
        self._database = database
        self._pages = RowPages(database)
        self._tail: Tail | None = None
        """What the last write of this process left, so that the next one need not ask."""
        self._mark: int | None = None
        """The content's mark after that write."""
        self._locked_number: int | None = None
        """The last event when this process took the lock, which it holds."""

    @contextmanager
    def write_lock(self) -> Iterator[RowWriteLock]:
        with self._write() as lock:
            self._locked_number = self._last_number(lock)
            try:
                yield lock
            finally:
                self._locked_number = None

    def _last_number(self, lock: RowWriteLock) -> int:
        """Return the last event's number, inside the lock; asks the database only if others wrote since."""
        if lock.tail and self._mark is not None and self._database.content_mark() == self._mark:
            return lock.tail.number
        version, number, seal = self._database.row(_FOLD_AND_LAST_EVENT) or (None, None, None)
        _refuse_other_fold(version)
        lock.start(number or 0, seal)
        return number or 0

    def history(self, on_progress: OnProgress | None = None) -> History:
        version = self._fold_version()
        if version != FOLD_VERSION and self._database.reads_only:
            return self._fold()
        if version != FOLD_VERSION:
            self._rebuild_pages(version, on_progress)
        history = History(self._pages)
        self.update(history)
        return history

    def update(self, history: History) -> None:
        if history.number != self._locked_number:
            self._database.read(lambda: self._update(history))

    def _update(self, history: History) -> None:
        number, seal = self._last_event()
        if number == history.number:
            return
        saved = number if seal else (self._database.row(LAST_SEAL) or (0,))[0]
        history.catch_up(number, saved, self._pages.runs, self._events)

    def read(self, after: int = 0) -> Iterator[Recorded]:
        yield from self._events(after)

    def read_calls(self) -> Iterator[Recorded]:
        events = self._events(0, f"AND ({self._database.call_events})")
        yield from (recorded for recorded in events if is_about_calls(recorded.event))

    def flaw(self, newest_events: int | None = None, newest_nodes: int | None = None) -> str | None:
        return self._database.read(
            lambda: record_flaw(self._database, self._pages, newest_events, newest_nodes),
        )

    def now(self) -> float:
        return self._database.now()

    def is_away(self) -> bool:
        return False

    def wait_until_back(self) -> None:
        return

    @contextmanager
    def _write(self) -> Iterator[RowWriteLock]:
        try:
            with self._database.write():
                lock = RowWriteLock(self._database, self._pages, self._tail)
                yield lock
        except BaseException:
            self._pages.forget()
            self._tail = self._mark = None
            raise
        self._tail, self._mark = lock.tail, self._database.content_mark()

    def _events(self, after: int, only: str = "") -> Iterator[Recorded]:
        from loopty.record.history import read_event  # reading verbs open saved pages, and need no events

        for number, at, kind, body in event_rows(self._database, after, only=only):
            yield read_event(number, at, kind, body)

    def _fold(self) -> History:
        history = History()
        for recorded in self.read():
            history.apply_read(recorded)
        return history

    def _rebuild_pages(self, version: int, on_progress: OnProgress | None) -> None:
        """Rebuild the pages from the events: the saved ones come from another version of the fold.

        One process does so, and the others wait for it, however long that takes.
        """
        with self._database.short_waits():
            while version != FOLD_VERSION:
                try:
                    self._rebuild_in_lock(on_progress)
                except LedgerBusy:
                    if on_progress:
                        on_progress(0, self._last_event()[0])
                version = self._fold_version()

    def _rebuild_in_lock(self, on_progress: OnProgress | None) -> None:
        with self._write() as lock:
            if self._fold_version() == FOLD_VERSION:  # another process was faster
                return
            self._pages.clear()
            history, total, (count, _) = History(self._pages), NOTHING, self._last_event()
            for recorded in self.read():
                history.apply_read(recorded)
                if recorded.number % _EVENTS_PER_SAVE == 0:  # so that a long record needs little memory
                    total = self._pages.write(history.take_changed_pages(), total)
                    if on_progress:
                        on_progress(recorded.number, count)
            lock.seal(self._pages.write(history.take_changed_pages(), total))
            self._database.execute("UPDATE fold SET version = ?", (FOLD_VERSION,))

    def _last_event(self) -> tuple[int, bytes | None]:
        """Return the number of the last event, and its seal if the pages belong to it."""
        number, seal = self._database.row(_LAST_EVENT) or (0, None)
        return number, seal

    def _fold_version(self) -> int:
        (version,) = self._database.row("SELECT version FROM fold") or (None,)
        if type(version) is not int:
            raise Misuse(
                "the ledger's database does not say which fold its pages have: it is damaged, or no ledger"
            )
        return version


def _refuse_other_fold(version: object) -> None:
    """Write no page of this version among those of another one."""
    if version != FOLD_VERSION:
        raise Misuse(
            f"another version of loopty has taken this ledger over (fold {version}, here {FOLD_VERSION}): "
            "use the same version everywhere, then start again; everything recorded is safe"
        )
