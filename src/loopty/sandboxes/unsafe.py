"""No sandbox: run a launch as a plain process, for machines without one and users who accept the risk."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from loopty.domain.launch import Exit, Gap, Launch, Mount, Protection, SandboxError, Stop
from loopty.kit.temporary_folder import make_temporary_folder
from loopty.sandboxes.layout import Layout, show_as_copy
from loopty.sandboxes.resource_usage import Footprint
from loopty.sandboxes.supervise import SignalFreezer, pipes_of, supervise, wait_readable

_NOT_FOUND = 127
_KILL_SECONDS = 10.0
# Every descendant inherits this unless it removes it on purpose, even one that has left the session.
_MARK = "LOOPTY_UNSAFE_TRIAL"


class Unsafe:
    """Runs with the rights of the current user; writable mounts and sockets are links, other mounts are copies."""

    name = "unsafe"
    gaps = (
        Gap(Protection.WRITE, "a trial can write every file that the user can write"),
        Gap(Protection.READ, "the whole file system can be read"),
        Gap(Protection.NETWORK, "the network is open"),
        Gap(Protection.OTHERS, "other processes of the user can be seen and signalled"),
        Gap(Protection.CALLS, "no system call is filtered"),
        Gap(Protection.FORKS, "the number of processes is not bounded"),
        Gap(Protection.MEMORY, "only memory of processes is counted, and not of processes that leave the session"),
        Gap(Protection.DISK, "disk is bounded only in the writable mounts and the scratch directories"),
        Gap(Protection.SURVIVORS, "a descendant that leaves its session and clears its environment survives"),
    )

    async def run(self, launch: Launch, cancel: asyncio.Event) -> Exit:
        """Run to the end, to a bound, or until `cancel` is set; kill all processes of the tree that it finds."""
        with contextlib.ExitStack() as ours:
            if launch.channel is not None:
                ours.callback(os.close, launch.channel)
            directory = await asyncio.to_thread(make_temporary_folder, "unsafe")
            layout = Layout(directory, launch, show_as_copy)
            try:
                await asyncio.to_thread(layout.build)
                return await _run(layout, launch, cancel, on_start=ours.close)
            finally:
                await asyncio.shield(asyncio.to_thread(layout.remove))


async def _run(layout: Layout, launch: Launch, cancel: asyncio.Event, on_start: Callable[[], None]) -> Exit:
    start = time.monotonic()
    mark = secrets.token_hex(16)
    if not Path(layout.translate(launch.cwd)).is_dir():
        raise SandboxError(f"there is no directory {launch.cwd} to start in")
    try:
        process = _start_process(layout, launch, mark)
    except OSError as error:
        if launch.channel is None:
            launch.stdout.write_bytes(b"")
        launch.stderr.write_text(f"{launch.argv[0]}: {error.strerror}\n", encoding="utf-8")
        return Exit(_NOT_FOUND, time.monotonic() - start)
    on_start()
    with process, contextlib.closing(_Session(process, mark, layout, launch)) as tree:
        stop = await supervise(tree, launch, cancel)
    code = process.returncode
    return Exit(code if code >= 0 else 128 - code, time.monotonic() - start, stop)


def _start_process(layout: Layout, launch: Launch, mark: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [layout.translate(word) for word in launch.argv],
        stdin=subprocess.DEVNULL if launch.channel is None else launch.channel,
        stdout=subprocess.PIPE if launch.channel is None else launch.channel,
        stderr=subprocess.PIPE,
        bufsize=0,
        env={"TMPDIR": layout.environment["HOME"], **layout.environment, _MARK: mark},
        cwd=layout.translate(launch.cwd),
        start_new_session=True,
    )


class _Session:
    """A process tree known by its session and by a mark in its environment."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str, layout: Layout, launch: Launch) -> None:
        self.pipes = pipes_of(process)
        self._process = process
        self._pidfd = os.pidfd_open(process.pid)
        self._mark = f"{_MARK}={mark}".encode()
        self._footprint = Footprint(
            process.pid, (), tuple(Mount(path, str(path), True) for path in layout.writable_paths)
        )
        self._bounds = launch.bounds
        if launch.on_start:
            launch.on_start(SignalFreezer(self._pids_alive))

    def excess(self) -> Stop | None:
        return self._footprint.excess(self._bounds)

    def kill(self) -> None:
        for pid in self._pids_alive():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    async def wait_until_dead(self) -> None:
        await wait_readable(self._pidfd)
        self.kill_and_wait()

    def kill_and_wait(self) -> None:
        if self._process.returncode is not None:
            return
        deadline = time.monotonic() + _KILL_SECONDS
        self.kill()
        # Repeatedly, because a look misses a process that is being forked at that moment.
        while any(True for _ in self._pids_alive()) and time.monotonic() < deadline:
            self.kill()
            time.sleep(0.001)
        self._process.wait()

    def close(self) -> None:
        os.close(self._pidfd)

    def _pids_alive(self) -> Iterator[int]:
        for directory in Path("/proc").iterdir():
            if directory.name.isdecimal():
                with contextlib.suppress(OSError):
                    # State and session: fields 1 and 4 after a name in parentheses, which may contain anything.
                    fields = (directory / "stat").read_text(errors="replace").rpartition(")")[2].split()
                    dead = fields[0] in "ZX"
                    if not dead and (int(fields[3]) == self._process.pid or self._is_marked(directory)):
                        yield int(directory.name)

    def _is_marked(self, directory: Path) -> bool:
        return self._mark in (directory / "environ").read_bytes().split(b"\0")
