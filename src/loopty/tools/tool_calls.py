"""Calls of tools that are under way, as the doors to the tools see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Call(Protocol):
    """A call that another process answers."""

    def fileno(self) -> int:
        """A descriptor that can be read when there is something to read."""
        ...

    def read(self) -> bytes | None:
        """Read what has come: the reply when it is complete, else None."""
        ...


StartCall = Callable[[bytes], Call]
"""Begins to answer a call, given as JSON."""
MOST_CALLS = 16
"""Of one door, at the same time."""
