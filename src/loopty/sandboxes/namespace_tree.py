"""loopty's side of a trial in namespaces: the connection to its first process, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from pathlib import Path

from loopty.domain.launch import Launch, Stop
from loopty.kit.readiness import is_readable
from loopty.sandboxes.cgroup import Cgroup
from loopty.sandboxes.namespace_launcher.launch_order import ENDED, FAILED, GO, READY, receive_message
from loopty.sandboxes.resource_usage import Footprint, threads_of_tree
from loopty.sandboxes.signal_freezer import SignalFreezer

# The launcher forks within milliseconds, or is dead, or was stopped.
_START_SECONDS = 10.0
_MESSAGE_BYTES = 1 << 13
_DEAD = -1


class NamespaceTree:
    """A process tree in a pid namespace: when its first process dies, the kernel kills all others."""

    def __init__(
        self,
        connection: socket.socket,
        pipes: tuple[int | None, int],
        launch: Launch,
        cgroup: Cgroup | None,
        freezer: Cgroup | None,
    ) -> None:
        self.pipes = pipes
        self.code: int | None = None
        self.failure = ""
        self.start_time = time.monotonic()
        self._connection = connection
        self._launch = launch
        self._cgroup = cgroup
        self._freezer = freezer
        self._pid = 0
        """The first process; 0 where the launcher did not know and nobody has asked yet."""
        self._pidfd: int | None = None
        self._memory: list[int] = []
        self._footprint: Footprint | None = None
        self.is_ready = self._is_released = self._is_killed = False
        self._dead = asyncio.Event()
        connection.setblocking(False)
        # By number: the loop would describe the socket in an exception that it catches.
        self._number = connection.fileno()
        asyncio.get_running_loop().add_reader(self._number, self._on_message)

    @property
    def kernel_stop(self) -> Stop | None:
        """Stop.MEMORY when the kernel killed a process of the tree for its memory, else None."""
        return Stop.MEMORY if self._cgroup is not None and self._cgroup.has_run_out_of_memory() else None

    @property
    def was_never_started(self) -> bool:
        """Whether the launcher has not said that it started the first process."""
        return self._pidfd is None

    def excess(self) -> Stop | None:
        if self._pidfd is None or not self.is_ready:
            return None
        if self._footprint is None:
            self._footprint = Footprint(
                self._first_pid(self._pidfd),
                tuple(Path(f"/proc/self/fd/{descriptor}") for descriptor in self._memory),
                tuple(mount for mount in self._launch.mounts if mount.writable),
            )
        return self.kernel_stop or self._footprint.excess(self._launch.bounds)

    def kill(self) -> None:
        self._is_killed = True
        if self._pidfd is None:
            # The first process ends when it finds the connection closed; its pidfd may still come.
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_WR)
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        if self._freezer is not None:
            self._freezer.thaw()

    async def wait_until_dead(self) -> None:
        await self._dead.wait()

    def kill_and_wait(self) -> None:
        if self._dead.is_set():
            return
        self.kill()
        deadline = time.monotonic() + _START_SECONDS
        while self._pidfd is None and not self._dead.is_set() and (left := deadline - time.monotonic()) > 0:
            if is_readable(self._number, left):
                self._on_message()
        if self._pidfd is not None:
            is_readable(self._pidfd, None)
        self._dead.set()

    def close(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._number)
        self._connection.close()
        if self._pidfd is not None:
            loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pid = self._pid or _DEAD  # the number of the descriptor may soon be another one's
        for descriptor in self._memory:
            os.close(descriptor)

    def _on_message(self) -> None:
        try:
            message, descriptors = receive_message(self._connection, _MESSAGE_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            message, descriptors = b"", []
        if not message:
            self._on_end()
        elif message.startswith(ENDED):
            self.code = int(message.removeprefix(ENDED))
        elif message.startswith(FAILED):
            self.failure = message.removeprefix(FAILED).decode(errors="replace")
        elif message.startswith(READY):
            self.start_time = float(message.removeprefix(READY))
            self._memory = descriptors
            self.is_ready = True
        else:
            (self._pidfd,) = descriptors
            self._pid = int(message)
            if self._is_killed:
                self.kill()
        if self.is_ready and self._pidfd is not None:
            self._release_command(self._pidfd)

    def _first_pid(self, pidfd: int) -> int:
        self._pid = self._pid or pid_behind(pidfd)
        return self._pid

    def _release_command(self, pidfd: int) -> None:
        """Say how the processes can be stopped, by their cgroup, else by signals, and let the command start."""
        if self._is_released or self._launch.on_start is None:
            return
        self._is_released = True
        self._launch.on_start(self._freezer or SignalFreezer(lambda: threads_of_tree(self._first_pid(pidfd))))
        with contextlib.suppress(OSError):
            self._connection.send(GO)

    def _on_end(self) -> None:
        """The first process has closed its end: it is dead, dying, or was never made."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._number)
        if self._pidfd is None or is_readable(self._pidfd, 0):
            self._dead.set()
        else:
            loop.add_reader(self._pidfd, self._on_death, self._pidfd)

    def _on_death(self, pidfd: int) -> None:
        asyncio.get_running_loop().remove_reader(pidfd)
        self._dead.set()


def pid_behind(pidfd: int) -> int:
    """The pid of an open process as this process sees it; -1 when it is dead."""
    with Path(f"/proc/self/fdinfo/{pidfd}").open("rb") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(b"Pid:"))
