"""Waits for a ledger whose server is away, while everything else in the process goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from loopty.record.ledger import Ledger

_QUIET_SECONDS = 2.0
"""A restart that takes no longer is not worth a word."""


async def wait_until_back(ledger: Ledger, say: Callable[[str], None]) -> None:
    """Return when the server answers again; `say` hears of a wait that a person may notice. Raises Misuse."""
    since = time.monotonic()
    waits = asyncio.create_task(asyncio.to_thread(ledger.wait_until_back))
    done, _ = await asyncio.wait({waits}, timeout=_QUIET_SECONDS)
    if done:
        return waits.result()
    say("the ledger's server is away: running trials go on, nothing new starts, and nothing is lost")
    await waits
    return say(f"the ledger's server is back after {time.monotonic() - since:.0f} s: the run goes on")
