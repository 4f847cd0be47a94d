"""Supervise one process tree until it ends by itself, exceeds a bound or is cancelled."""

from __future__ import annotations

import asyncio
import subprocess
import time
from typing import Protocol

from loopty.domain.launch import Launch, Stop
from loopty.sandboxes.outputs import Outputs

_PERIOD_SECONDS = 0.2
# Measuring takes at most this share of the watcher's time, no matter how large the tree.
_WATCH_SHARE = 0.1


class ProcessTree(Protocol):
    """A started process tree."""

    @property
    def pipes(self) -> tuple[int | None, int]:
        """The read ends of its standard output, None when that is a channel, and of its standard error."""
        ...

    def excess(self) -> Stop | None:
        """The bound that the tree exceeds now, or None. Called in a thread."""
        ...

    def kill(self) -> None:
        """Kill every process of the tree; does nothing when it is dead."""
        ...

    async def wait_until_dead(self) -> None:
        """Return when every process of the tree is dead and reaped."""
        ...

    def kill_and_wait(self) -> None:
        """Kill the tree and block until it is dead, which takes milliseconds; for callers that cannot await."""
        ...


async def supervise(tree: ProcessTree, launch: Launch, cancel: asyncio.Event) -> Stop | None:
    """Wait until the tree is dead; returns why it was stopped, or None when it ended by itself."""
    stops: list[Stop] = []

    def stop(reason: Stop) -> None:
        stops.append(reason)
        tree.kill()

    loop = asyncio.get_running_loop()
    timer = loop.call_later(launch.bounds.seconds, stop, Stop.TIME)
    outputs = None
    try:
        outputs = Outputs(
            {
                pipe: path
                for pipe, path in zip(tree.pipes, (launch.stdout, launch.stderr), strict=True)
                if pipe is not None
            },
            launch.bounds.output_mb << 20,
            lambda: stop(Stop.OUTPUT),
        )
        async with asyncio.TaskGroup() as group:
            watchers = [
                group.create_task(_on_cancel(cancel, stop)),
                group.create_task(_on_excess(tree, stop)),
            ]
            await tree.wait_until_dead()
            for watcher in watchers:
                watcher.cancel()
        outputs.drain()
    finally:
        timer.cancel()
        tree.kill_and_wait()
        if outputs is not None:
            outputs.close()
    return stops[0] if stops else None


class _Stopper(Protocol):
    def __call__(self, reason: Stop) -> None: ...


async def _on_cancel(cancel: asyncio.Event, stop: _Stopper) -> None:
    await cancel.wait()
    stop(Stop.CANCELLED)


async def _on_excess(tree: ProcessTree, stop: _Stopper) -> None:
    pause = _PERIOD_SECONDS
    while True:
        await asyncio.sleep(pause)
        started = time.monotonic()
        if (reason := await asyncio.to_thread(tree.excess)) is not None:
            stop(reason)
            return
        pause = max(_PERIOD_SECONDS, (time.monotonic() - started) / _WATCH_SHARE)


def pipes_of(process: subprocess.Popen[bytes]) -> tuple[int | None, int]:
    """The pipes of a process that was started with its standard error piped."""
    assert process.stderr is not None
    return process.stdout.fileno() if process.stdout else None, process.stderr.fileno()


async def wait_readable(descriptor: int) -> None:
    """Wait until the descriptor is readable; a pidfd is when its process is dead."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
