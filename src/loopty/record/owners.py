"""Owners: the processes that work on a ledger. A trial, a session and a call each belong to one."""

from __future__ import annotations

from typing import Protocol


class Owners(Protocol):
    """Which processes work on one ledger, and which of them still live."""

    def claim(self) -> str:
        """Make this process an owner until its work ends; returns its name, `host:pid:token`."""
        ...

    def is_alive(self, owner: str) -> bool:
        """Whether the process of this name works. Changes nothing."""
        ...

    def exclude(self, owner: str) -> bool:
        """Whether the process of this name is gone. If so, it writes nothing any more, even if it comes back.

        Call it while the write lock is held, and record in the same write what its end means.
        """
        ...


class LocalOwners(Owners, Protocol):
    """The owners that are processes of this machine."""

    def has_died(self, owner: str) -> bool:
        """Whether the process was one of this machine, and is certainly gone. Changes nothing."""
        ...
