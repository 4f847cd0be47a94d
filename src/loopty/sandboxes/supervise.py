"""Supervise one process tree until it ends by itself, exceeds a bound or is cancelled."""

from __future__ import annotations

import asyncio
import subprocess
import time
from typing import Protocol

from loopty.domain.launch import Launch, Stop
from loopty.sandboxes.outputs import Outputs

_PERIOD_SECONDS = 0.2
# Measuring takes at most this share of a core, no matter how large the tree. Waiting for a core does not count:
# a watcher that looked less often on a busy machine would let a trial fill the disk.
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

    timer = asyncio.get_running_loop().call_later(launch.bounds.seconds, stop, Stop.TIME)
    cancelling = asyncio.ensure_future(_on_cancel(cancel, stop))
    watch = _ExcessWatch(tree, stop)
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
            launch.keeps_empty_logs,
        )
        await tree.wait_until_dead()
        outputs.drain()
    finally:
        timer.cancel()
        cancelling.cancel()
        watch.close()
        tree.kill_and_wait()
        if outputs is not None:
            outputs.close()
    watch.raise_failure()
    return stops[0] if stops else None


class _Stopper(Protocol):
    def __call__(self, reason: Stop) -> None: ...


async def _on_cancel(cancel: asyncio.Event, stop: _Stopper) -> None:
    await cancel.wait()
    stop(Stop.CANCELLED)


class _ExcessWatch:
    """Measures the tree again and again. Most trials end before the first time, and cost no task."""

    def __init__(self, tree: ProcessTree, stop: _Stopper) -> None:
        self._tree = tree
        self._stop = stop
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(_PERIOD_SECONDS, self._start)

    def close(self) -> None:
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def raise_failure(self) -> None:
        """Raise what ended the watch; the tree was killed then, because nothing measured it any more."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    def _start(self) -> None:
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        try:
            while True:
                reason, cpu_seconds = await asyncio.to_thread(self._measure)
                if reason is not None:
                    self._stop(reason)
                    return
                await asyncio.sleep(max(_PERIOD_SECONDS, cpu_seconds / _WATCH_SHARE))
        except Exception:
            self._tree.kill()
            raise

    def _measure(self) -> tuple[Stop | None, float]:
        """The bound that is exceeded, if any, and the CPU time that it took to find out."""
        started = time.thread_time()
        reason = self._tree.excess()
        return reason, time.thread_time() - started


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
