"""Supervise one process tree until it ends by itself, exceeds a bound or is cancelled: its outputs, and stopping
it by signals.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from loopty.domain.launch import Launch, SandboxError, Stop

_PERIOD_SECONDS = 0.2
# Measuring takes at most this share of a core, no matter how large the tree. Waiting for a core does not count:
# a watcher that looked less often on a busy machine would let a trial fill the disk.
_WATCH_SHARE = 0.1


class ProcessTree(Protocol):
    """A started process tree."""

    @property
    def pipes(self) -> tuple[int | None, int]:
        """Return the read ends of its standard output, None when that is a channel, and of its standard error."""
        ...

    def excess(self) -> Stop | None:
        """Return the bound that the tree exceeds now, or None. Called in a thread."""
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
        """Find the bound that is exceeded, if any, and the CPU seconds that this took."""
        started = time.thread_time()
        reason = self._tree.excess()
        return reason, time.thread_time() - started


def pipes_of(process: subprocess.Popen[bytes]) -> tuple[int | None, int]:
    """Return the pipes of a process that was started with its standard error piped."""
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


_CHUNK_BYTES = 1 << 16


class Outputs:
    """Two pipes of a running tree, read as they fill. `on_flood` is called when the bound is exceeded."""

    def __init__(
        self, pipes: dict[int, Path], limit: int, on_flood: Callable[[], None], keeps_empty: bool = True
    ) -> None:
        """Remove what was in the files. They are made immediately, or with their folder at their first byte."""
        self._remaining = limit
        self._on_flood = on_flood
        self._failure: OSError | None = None
        self._paths = pipes
        self._files: dict[int, int] = {}
        loop = asyncio.get_running_loop()
        for pipe, path in pipes.items():
            try:
                if keeps_empty:
                    self._file(pipe)
                else:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(path)  # noqa: PTH108 - pathlib takes longer than the call
            except OSError as error:
                self.close()
                raise SandboxError(f"cannot write {path}: {error.strerror}") from error
            os.set_blocking(pipe, False)
            loop.add_reader(pipe, self._copy, pipe)

    def drain(self) -> None:
        """Copy what is left in the pipes once the tree is dead. Raises SandboxError when any copy failed."""
        for pipe in self._paths:
            while self._copy(pipe):
                pass
        if self._failure is not None:
            raise SandboxError(f"cannot write the output of a trial: {self._failure.strerror}") from self._failure

    def close(self) -> None:
        """Stop reading."""
        loop = asyncio.get_running_loop()
        for pipe in self._paths:
            loop.remove_reader(pipe)
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def _file(self, pipe: int) -> int:
        """Return the file of a pipe, opened."""
        if pipe not in self._files:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            path = self._paths[pipe]
            try:
                self._files[pipe] = os.open(path, flags, 0o644)
            except FileNotFoundError:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._files[pipe] = os.open(path, flags, 0o644)
        return self._files[pipe]

    def _copy(self, pipe: int) -> bool:
        """Copy one chunk; false when the pipe is empty for now or closed."""
        try:
            chunk = os.read(pipe, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            asyncio.get_running_loop().remove_reader(pipe)
            return False
        try:
            self._write(self._file(pipe), memoryview(chunk))
        except OSError as error:
            self._failure = error
            self._on_flood()
        return True

    def _write(self, file: int, chunk: memoryview) -> None:
        part = chunk[: self._remaining]
        self._remaining -= len(part)
        if len(part) < len(chunk):
            self._on_flood()
        while part:
            part = part[os.write(file, part) :]


_TICKS = os.sysconf("SC_CLK_TCK")
_FREEZING_SECONDS = 5.0
_PAUSE = 0.0002
_STILL = frozenset("TtZXxD")
"""States of a thread that has been sent SIGSTOP and uses no CPU: stopped, dead, or about to stop after a wait."""
_CALM_LOOKS = 2
"""A process may be forked, or continued by another one, between two looks."""


class SignalFreezer:
    """Stops the processes that `pids` finds, again and again until none of them runs."""

    counts_ended = False

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self._pids = pids

    def freeze(self) -> None:
        deadline = time.monotonic() + _FREEZING_SECONDS
        stopped: set[int] = set()
        calm = 0
        while calm < _CALM_LOOKS:
            moving = [pid for pid in self._pids() if pid not in stopped or _is_moving(pid)]
            for pid in moving:
                _send(pid, signal.SIGSTOP)
            stopped.update(moving)
            calm = 0 if moving else calm + 1
            if time.monotonic() > deadline:
                raise TimeoutError("the processes of a candidate do not stop")
            if moving:
                time.sleep(_PAUSE)

    def thaw(self) -> None:
        for pid in self._pids():
            _send(pid, signal.SIGCONT)

    def processes(self) -> Iterable[int]:
        return self._pids()

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of the living processes and of the children that they have reaped."""
        return sum(map(_cpu_ticks, self._pids())) / _TICKS


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _is_moving(pid: int) -> bool:
    """Say whether a thread of the process may run; its first one may be dead while others continue."""
    return any(fields[0] not in _STILL for fields in _thread_fields(pid))


def _thread_fields(pid: int) -> Iterator[list[str]]:
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                yield _fields(thread / "stat")


def _cpu_ticks(pid: int) -> int:
    with contextlib.suppress(OSError):
        # User and system time, of the process and of its reaped children: fields 11 to 14 after the name.
        return sum(map(int, _fields(Path(f"/proc/{pid}/stat"))[11:15]))
    return 0


def _fields(stat: Path) -> list[str]:
    """Return the fields after the name in parentheses, which may contain anything; the first is the state."""
    return stat.read_text(errors="replace").rpartition(")")[2].split()
