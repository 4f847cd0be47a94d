"""Work that Ctrl-C asks to end."""

import asyncio
import os
import signal
import threading

import pytest

from loopty.session.stoppable import run_until_stopped


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_the_work_to_end_while_it_waits(number: int) -> None:
    async def work(cancel: asyncio.Event) -> str:
        threading.Timer(0.01, os.kill, (os.getpid(), number)).start()
        await asyncio.wait_for(cancel.wait(), 60)
        return "ended in order"

    before = signal.getsignal(number)
    assert run_until_stopped(work) == "ended in order"
    assert signal.getsignal(number) is before


def test_work_runs_in_a_thread_without_signals() -> None:
    async def work(cancel: asyncio.Event) -> bool:
        return cancel.is_set()

    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(run_until_stopped(work)))
    thread.start()
    thread.join(60)
    assert results == [False]
