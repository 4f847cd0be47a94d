"""`loopty worker`: join a driver, run its trials here, and join again when the connection breaks."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from loopty.campaign.trust_store import user_state_folder
from loopty.campaign.worker_folder import WorkerFolder
from loopty.domain.errors import Misuse
from loopty.executors.frames import Link, LinkLost
from loopty.executors.worker_client import WorkerClient
from loopty.executors.worker_door import connect
from loopty.executors.worker_url import WorkerUrl

_LONGEST_PAUSE = 10.0
_MOST_FOLDERS = 1000


@dataclass(frozen=True)
class WorkerRun:
    """One worker process."""

    folder: Path | None
    """Where it keeps its files; None for one of its own in the user's state."""
    name: str
    trust: bool
    say: Callable[[str], None]

    def join(self, url: WorkerUrl, patience_seconds: float | None = None) -> None:
        """Work for the driver with this URL until it has no more work. Raises Misuse when it refuses.

        Without a driver for `patience_seconds`, it ends.
        """

        async def work(client: WorkerClient) -> None:
            pause, since = 0.5, time.monotonic()
            while True:
                try:
                    link = await connect(url)
                    pause = 0.5
                    await client.work(link)
                    return
                except LinkLost as lost:
                    since = since if pause > 0.5 else time.monotonic()
                    if patience_seconds is not None and time.monotonic() - since > patience_seconds:
                        raise Misuse(f"{lost}; no driver came back for {patience_seconds:g} s") from None
                    self.say(f"{lost}; joining again")
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # not all at once
                pause = min(_LONGEST_PAUSE, pause * 2)

        self._run(url.token, work)

    def serve_stdio(self) -> None:
        """Work for the driver at the other end of standard input and output."""

        async def work(client: WorkerClient) -> None:
            try:
                await client.work(await _stdio_link())
            except LinkLost as lost:
                self.say(f"the driver is gone: {lost}")

        self._run("", work)

    def _run(self, token: str, work: Callable[[WorkerClient], Awaitable[None]]) -> None:
        with _hold_folder(self.folder) as folder:
            client = WorkerClient(self.name, token, WorkerFolder(folder, self.trust, self.say), self.say)
            with contextlib.suppress(asyncio.CancelledError):
                asyncio.run(_run_until_signal(work(client)))


async def _run_until_signal(work: Awaitable[None]) -> None:
    """Work until it is done, or until SIGINT or SIGTERM: then its trial is killed first."""
    task = asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await task


async def _stdio_link() -> Link:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    # Copies, so that nothing else in this process can write between two frames.
    source, target = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    await loop.connect_read_pipe(lambda: protocol, source)
    transport, writer_protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, target)
    return Link(reader, asyncio.StreamWriter(transport, writer_protocol, reader, loop))


@contextlib.contextmanager
def _hold_folder(chosen: Path | None) -> Iterator[Path]:
    """A folder that no other worker uses, until this one ends, however it ends. Raises Misuse."""
    above = user_state_folder(os.environ) / "workers"
    for folder in [chosen] if chosen else (above / str(number) for number in range(1, _MOST_FOLDERS)):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(
                folder / "worker.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
        except OSError as error:
            raise Misuse(f"cannot write to {folder} ({error.strerror}): name another place with --dir") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            os.close(descriptor)
            if chosen:
                raise Misuse(f"{folder} is in use by another worker (process {holder}): name another") from None
            continue
        try:
            os.pwrite(descriptor, f"{os.getpid():<20}".encode(), 0)
            yield folder
        finally:
            os.close(descriptor)
        return
    raise Misuse(f"{_MOST_FOLDERS} workers run here already: stop some of them")
