"""Whether a descriptor can be read, also in a process that has more open than `select` can count: 1,024."""

from __future__ import annotations

import select
from math import ceil


def is_readable(descriptor: int, seconds: float | None) -> bool:
    """Whether there is something to read, or its other end or its process is gone, within the time; None: wait."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if seconds is None else ceil(seconds * 1_000)))
