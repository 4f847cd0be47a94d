"""The ledger as the engine sees it: an append-only list of events, written by one process at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from loopty.domain.errors import Misuse
from loopty.record.fold import Recorded
from loopty.record.history import History
from loopty.record.pages import Page


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


class WriteLock(Protocol):
    """The exclusive right to write, held while a decision is made and recorded."""

    def write(self, events: Sequence[Recorded], pages: Mapping[str, Page] | None) -> None:
        """Add events, whose numbers continue without a gap, and save the pages of the fold.

        Without pages, they stay as they are until a later write; there may be pages without events.
        """
        ...


class Ledger(Protocol):
    """An append-only list of events, shared by any number of processes."""

    def write_lock(self) -> AbstractContextManager[WriteLock]:
        """Wait for the lock. Everything written is durable when the block ends, and gone if it raises."""
        ...

    def history(self, on_progress: OnProgress | None = None) -> History:
        """Return the saved fold, up to the last event. One of an older loopty is made again, which takes time."""
        ...

    def update(self, history: History) -> None:
        """Bring a history of this ledger up to the last event; also while the lock is held."""
        ...

    def read(self, after: int = 0) -> Iterator[Recorded]:
        """Yield events with a higher number, oldest first."""
        ...

    def read_calls(self) -> Iterator[Recorded]:
        """Yield the events about model calls, oldest first: the calls, and the proposals that calls made."""
        ...

    def now(self) -> float:
        """Return the seconds since the epoch, by the clock that all its writers share."""
        ...

    def is_away(self) -> bool:
        """Say whether its server has hung up, as far as this process knows. Asks no one, so it costs nothing."""
        ...

    def wait_until_back(self) -> None:
        """Wait until the server answers again, in any thread. Raises Misuse where that takes too long."""
        ...

    def owners(self, local: LocalOwners) -> Owners:
        """Return who works on this ledger. `local` knows the processes of this machine by their lock files."""
        ...

    def flaw(self, newest_events: int | None = None, newest_nodes: int | None = None) -> str | None:
        """Tell in words what was changed by hand, or None. Reads all events and nodes, or the newest ones.

        It also names a page that was read from this ledger before and does not match its digest.
        """
        ...
