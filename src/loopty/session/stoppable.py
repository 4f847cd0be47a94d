"""Run asynchronous work to its end, also in a notebook, with Ctrl-C or its stop button as a request to stop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from loopty.domain.objective import Directions
from loopty.domain.trial import Row
from loopty.engine.protocols import OnMetrics, Trial

T = TypeVar("T")


def run_until_stopped(work: Callable[[asyncio.Event], Awaitable[T]]) -> T:
    """Return the result of the work; SIGINT and SIGTERM set the event that asks it to end."""
    signals = _StopSignals()
    with signals.caught():
        return run_beside_loops(lambda: asyncio.run(signals.run(work)), signals.stop)


def run_beside_loops(main: Callable[[], T], stop: Callable[[], None]) -> T:
    """Call `main`, which runs an event loop: in a thread of its own where one runs here already, as in a notebook.

    KeyboardInterrupt then calls `stop`, from this thread, and the result is still that of `main`.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return main()

    # One thread a call, with the variables of the caller: so notebooks know which cell printed a line.
    with ThreadPoolExecutor(1) as thread:
        ended = thread.submit(contextvars.copy_context().run, main)
        try:
            return ended.result()
        except KeyboardInterrupt:
            stop()
            return ended.result()


class _StopSignals:
    """Sets an event at each signal to end. asyncio's own way imports `inspect`, a fortieth of a `run`."""

    def __init__(self) -> None:
        self._came = False
        self._set_event: Callable[[], object] | None = None

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        before = {}
        try:
            with contextlib.suppress(ValueError):  # not in the main thread
                for number in (signal.SIGINT, signal.SIGTERM):
                    before[number] = signal.signal(number, lambda *_: self.stop())
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def run(self, work: Callable[[asyncio.Event], Awaitable[T]]) -> T:
        cancel = asyncio.Event()
        # From a signal: it wakes the loop, which may be waiting.
        self._set_event = functools.partial(asyncio.get_running_loop().call_soon_threadsafe, cancel.set)
        if self._came:
            cancel.set()
        try:
            return await work(cancel)
        finally:
            self._set_event = None

    def stop(self) -> None:
        self._came = True
        if self._set_event:
            self._set_event()


def watch_nothing(_trial: Trial) -> OnMetrics:
    """Watch nothing, for trials that are never pruned."""
    return never_prune


def never_prune(_rows: Sequence[Row], _directions: Directions) -> str | None:
    return None
