"""The ledger: an append-only list of events with the tables of their fold, written by one process at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import starmap
from typing import Any, Protocol

from loopty.domain.errors import Misuse
from loopty.record.calls import is_about_calls
from loopty.record.database import (
    NOTHING,
    Database,
    DigestSum,
    LedgerBusy,
    event_digest,
    next_place,
    seal_digest,
)
from loopty.record.fold import Recorded
from loopty.record.history import FOLD_VERSION, History, encode_event, read_event
from loopty.record.node_table import NodeTable
from loopty.record.run_rows import RunRows, sum_digests_of_runs


class Owners(Protocol):
    """Which processes work on one ledger, and which of them still live."""

    def claim(self) -> str:
        """Make this process an owner until its work ends; returns its name, `host:pid:token`."""
        ...

    def is_alive(self, owner: str) -> bool:
        """Say whether the process of this name works. Changes nothing."""
        ...

    def exclude(self, owner: str) -> bool:
        """Say whether the process of this name is gone. If so, it writes nothing any more, even if it comes back.

        Call it while the write lock is held, and record in the same write what its end means.
        """
        ...


class LocalOwners(Owners, Protocol):
    """The owners that are processes of this machine."""

    def has_died(self, owner: str) -> bool:
        """Say whether the process was one of this machine, and is certainly gone. Changes nothing."""
        ...


OnProgress = Callable[[int, int], None]
"""Hears how many events are folded (none: another process folds them), and how many there are."""


class WriteLost(Misuse):
    """The connection to the ledger broke, and nothing was written: decide again."""


_EVENT = "number, at, kind, body"
_DIGESTS = "digest, row_sum, seal"
_LAST_EVENT = f"SELECT number, {_DIGESTS} FROM events ORDER BY number DESC LIMIT 1"
_LAST_SEAL = f"SELECT number, {_DIGESTS} FROM events WHERE seal IS NOT NULL ORDER BY number DESC LIMIT 1"
"""The event to which the tables belong. It is the last one, unless somebody else wrote events."""
_AT_ONCE = 5_000
_EVENTS_PER_SAVE = 20_000
"""While the tables are made again."""


class WriteLock:
    """The exclusive right to write, held while a decision is made and recorded."""

    def __init__(self, db: Database, digest: bytes, total: DigestSum) -> None:
        self._db = db
        self._digest = digest
        self._sum = total

    def write(self, events: Sequence[Recorded], history: History) -> None:
        """Add events, whose numbers continue without a gap, and what they changed in the tables."""
        history.save()
        rows: list[tuple[Any, ...]] = []
        for item in events:
            kind, body = encode_event(item.event)
            self._digest = event_digest(self._digest, item.number, item.at, kind, body)
            rows.append((item.number, item.at, kind, body, self._digest, None, None))
        total = self._sum.total
        rows[-1] = (*rows[-1][:-2], total, seal_digest(self._digest, total))
        self._db.execute_many(f"INSERT INTO events ({_EVENT}, {_DIGESTS}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


class Ledger:
    """An append-only list of events with the tables of their fold, shared by any number of processes.

    Every write is one decision with all that it changes: durable when its lock is given back, gone if that raises.
    Use it from one thread.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sum = DigestSum()
        self._nodes = NodeTable(database, self._sum)
        self._locked_number: int | None = None
        """The last event when this process took the lock, which it holds."""

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def write_lock(self) -> Iterator[WriteLock]:
        """Wait for the lock. Everything written is durable when the block ends, and gone if it raises."""
        with self._database.write():
            _refuse_other_fold(self._fold_version())
            number, digest, total, _ = self._last_event()
            self._sum.set(total or (self._database.row(_LAST_SEAL) or (0, NOTHING, NOTHING))[2] or NOTHING)
            self._locked_number = number
            try:
                yield WriteLock(self._database, digest, self._sum)
            finally:
                self._locked_number = None

    def history(self, on_progress: OnProgress | None = None) -> History:
        """Return the fold, up to the last event. One of an older loopty is made again, which takes time."""
        if self.is_behind():
            self._fold_again(on_progress)
        history = self._empty_history()
        self.update(history)
        return history

    def update(self, history: History) -> None:
        """Bring a history of this ledger up to the last event; also while the lock is held."""
        if history.number == self._locked_number:
            return
        if not self._database.read(lambda: self._update(history)):
            self._fold_again(None)
            self._database.read(lambda: self._update(history))

    def _update(self, history: History) -> bool:
        """Say whether the history is at the last event; it is not where events stand behind the tables."""
        number, *_, seal = self._last_event()
        if number == history.number:
            return True
        if number and seal is None and self._locked_number is None:
            return False
        history.read_tables((self._database.row(_LAST_SEAL) or (0,))[0] if seal is None else number)
        for recorded in self.read(history.number):
            history.apply_read(recorded)
        return True

    def read(self, after: int = 0) -> Iterator[Recorded]:
        """Yield events with a higher number, oldest first."""
        return starmap(read_event, self._event_rows(after))

    def read_calls(self) -> Iterator[Recorded]:
        """Yield the events about model calls, oldest first: the calls, and the proposals that calls made."""
        events = starmap(read_event, self._event_rows(0, only=f"AND ({self._database.call_events})"))
        return (recorded for recorded in events if is_about_calls(recorded.event))

    def now(self) -> float:
        """Return the seconds since the epoch, by the clock that all its writers share."""
        return self._database.now()

    def is_away(self) -> bool:
        """Say whether its server has hung up, as far as this process knows. Asks no one, so it costs nothing."""
        return False

    def wait_until_back(self) -> None:
        """Wait until the server answers again, in any thread. Raises Misuse where that takes too long."""

    def owners(self, local: LocalOwners) -> Owners:
        """Return who works on this ledger. `local` knows the processes of this machine by their lock files."""
        return local

    def flaw(self, newest_events: int | None = None, newest_nodes: int | None = None) -> str | None:
        """Tell in words what was changed by hand, or None. Reads all events and nodes, or the newest ones.

        It also names a node that was read from this ledger before and does not match its digest.
        """
        return self._database.read(lambda: self._flaw(newest_events, newest_nodes))

    def _flaw(self, newest_events: int | None, newest_nodes: int | None) -> str | None:
        last, fault = self._check_events(newest_events)
        if fault:
            return fault
        _, sealed, total, seal = self._database.row(_LAST_SEAL) or (0, NOTHING, NOTHING, None)
        found = DigestSum()
        edited = sum_digests_of_runs(self._database, found)
        if newest_nodes is None or self._nodes.count() <= newest_nodes:
            self._nodes.sum_digests(found)
            total = found.total
        else:
            self._nodes.check_newest(newest_nodes)
        if edited := edited or self._nodes.first_edit_seen():
            return f"the record of {edited} was changed"
        if (seal_digest(sealed, total or NOTHING) if last != NOTHING else None) != seal:
            return "events or nodes were added or removed"
        return None

    def _check_events(self, newest: int | None) -> tuple[bytes, str | None]:
        """Return the digest of the last event, and what was changed in all events or in the newest, or None."""
        start: Any = None
        if newest is not None:
            before = "SELECT number, digest FROM events ORDER BY number DESC LIMIT 1 OFFSET ?"
            start = self._database.row(before, (newest,))
        after, last = start or (0, NOTHING)
        for number, at, kind, body, digest in self._event_rows(after, f"{_EVENT}, digest"):
            last = event_digest(last, number, at, kind, body)
            if last != digest:
                return last, f"event {number} was changed, or one before it removed"
        return last, None

    def _event_rows(self, after: int, columns: str = _EVENT, only: str = "") -> Iterator[Any]:
        query = f"SELECT {columns} FROM events WHERE number > ? {only} ORDER BY number LIMIT ?"
        while rows := self._database.rows(query, (after, _AT_ONCE)):
            yield from rows
            after = next_place(rows, after)

    def is_behind(self) -> bool:
        """Say whether the tables are of another fold than this one, or of earlier events than the last."""
        number, *_, seal = self._last_event()
        return self._fold_version() != FOLD_VERSION or (number > 0 and seal is None)

    def _fold_again(self, on_progress: OnProgress | None) -> None:
        """Make the tables again from the events.

        One process does so, and the others wait for it, however long that takes.
        """
        with self._database.short_waits():
            while self.is_behind():
                try:
                    self._fold_again_in_lock(on_progress)
                except LedgerBusy:
                    if on_progress:
                        on_progress(0, self._last_event()[0])

    def _fold_again_in_lock(self, on_progress: OnProgress | None) -> None:
        with self._database.write():
            if not self.is_behind():  # another process was faster
                return
            self._sum.set(NOTHING)
            for table in ("nodes", "runs"):
                self._database.execute(f"DELETE FROM {table}")
            history, (count, digest, *_) = self._empty_history(), self._last_event()
            for recorded in self.read():
                history.apply_read(recorded)
                if recorded.number % _EVENTS_PER_SAVE == 0:  # so that a long record needs little memory
                    history.save()
                    if on_progress:
                        on_progress(recorded.number, count)
            history.save()
            sealed = self._sum.total, seal_digest(digest, self._sum.total), count
            self._database.execute("UPDATE events SET row_sum = ?, seal = ? WHERE number = ?", sealed)
            self._database.execute("UPDATE fold SET version = ?", (FOLD_VERSION,))

    def _empty_history(self) -> History:
        return History(self._nodes, RunRows(self._database, self._sum))

    def _last_event(self) -> tuple[int, bytes, bytes | None, bytes | None]:
        """Return its number, its digest, and the sum of the tables' rows with its seal if they belong to it."""
        number, digest, total, seal = self._database.row(_LAST_EVENT) or (0, NOTHING, NOTHING, None)
        return number, digest, total, seal

    def _fold_version(self) -> int:
        (version,) = self._database.row("SELECT version FROM fold") or (None,)
        if type(version) is not int:
            raise Misuse(
                "the ledger's database does not say which fold its tables have: it is damaged, or no ledger"
            )
        return version


def _refuse_other_fold(version: int) -> None:
    """Write no row of this version among those of another one."""
    if version != FOLD_VERSION:
        raise Misuse(
            f"another version of loopty has taken this ledger over (fold {version}, here {FOLD_VERSION}): "
            "use the same version everywhere, then start again; everything recorded is safe"
        )
