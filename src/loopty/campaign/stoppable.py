"""Run one piece of asynchronous work to its end, with Ctrl-C as a request to stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from loopty.domain.curve import Row
from loopty.domain.objective import Directions
from loopty.engine.protocols import OnMetrics, Trial

T = TypeVar("T")


def run_until_stopped(work: Callable[[asyncio.Event], Awaitable[T]]) -> T:
    """The result of the work; SIGINT and SIGTERM set the event that asks it to end."""
    return asyncio.run(_run(work))


async def _run(work: Callable[[asyncio.Event], Awaitable[T]]) -> T:
    cancel = asyncio.Event()
    with contextlib.suppress(NotImplementedError, RuntimeError):  # no signals here, or not in the main thread
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, cancel.set)
    return await work(cancel)


def watch_nothing(_trial: Trial) -> OnMetrics:
    """For trials that are never pruned."""
    return never_prune


def never_prune(_rows: Sequence[Row], _directions: Directions) -> str | None:
    return None
