"""The shared store as the rest of loopty sees it: contents by name, on a place that several machines reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from loopty.domain.errors import Misuse
from loopty.kit.records import Record


class StoreFault(Misuse):
    """The store is away, full, read-only or refuses. What it should have got is kept here meanwhile."""


class StoredEntry(Record):
    """A content in the store."""

    name: str
    changed_at: float
    """Seconds since the epoch, by the clock of the store."""


class SharedStore(Protocol):
    """Contents by name. Names are paths of letters, digits, dots and dashes, made from hashes of what they name.

    Others write to it, so nothing that comes from it can be trusted before its hash was compared. Any number of
    processes may use it at once. All methods raise StoreFault.
    """

    shown: str
    """Where it is, for messages: without keys."""

    def prepare(self) -> None:
        """Make it a store of loopty, or see that it is one, and that it can be written."""
        ...

    def put(self, name: str, content: bytes) -> None:
        """Write the content under this name: as a whole or not at all, and durable. Doing it again is harmless."""
        ...

    def get(self, name: str, limit_bytes: int) -> bytes | None:
        """Return the content of this name; None if there is none. One longer than the limit is refused."""
        ...

    def has(self, name: str) -> bool:
        """Say whether there is a content of this name."""
        ...

    def entries(self, prefix: str) -> Iterator[StoredEntry]:
        """Yield what is below this prefix, which ends with a slash."""
        ...

    def remove(self, name: str) -> None:
        """Remove the content of this name, if it is there."""
        ...
