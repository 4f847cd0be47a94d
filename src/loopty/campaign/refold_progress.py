"""Says how far the record is brought up to date after an upgrade: a million trials take a minute."""

from __future__ import annotations

import time
from collections.abc import Callable

from loopty.record.ledger import OnProgress

_FIRST_SECONDS, _PERIOD_SECONDS = 1.0, 10.0


def refold_progress(say: Callable[[str], None]) -> OnProgress:
    """A function that says it when it takes long, and then now and again."""
    next_at = time.monotonic() + _FIRST_SECONDS

    def report(folded: int, count: int) -> None:
        nonlocal next_at
        if (now := time.monotonic()) < next_at:
            return
        next_at = now + _PERIOD_SECONDS
        if folded:
            say(f"the record is brought up to date after an upgrade, once: {folded:,} of {count:,} events")
        else:
            say(f"waiting for another process, which brings the record of {count:,} events up to date")

    return report
