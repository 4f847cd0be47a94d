"""Run a launch in namespaces that loopty makes itself, by a resident launcher: the default, and the cheapest; how
its trials end.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.domain.launch import Exit, Gap, Launch, SandboxError, Stop, WarmProcessLost, WarmStart
from loopty.domain.task import SandboxSpec
from loopty.kit.process import trial_owner
from loopty.kit.sockets import is_readable
from loopty.sandboxes import trial_view
from loopty.sandboxes.cgroup import Cgroup
from loopty.sandboxes.namespaces.launch_order import (
    ENDED,
    FAILED,
    GO,
    READY,
    dump_order,
    receive_message,
    send_descriptors,
)
from loopty.sandboxes.namespaces.launcher import (
    Launcher,
    close_with,
    copy_trees,
    make_order,
    make_pipes,
    trees_for_copy,
)
from loopty.sandboxes.resource_usage import Footprint, threads_of_tree
from loopty.sandboxes.supervise import SignalFreezer, supervise

if TYPE_CHECKING:
    from loopty.sandboxes.namespaces.warm.process import WarmPool, WarmProcess


_KILLED = 128 + signal.SIGKILL


@functools.cache
def _shared_launcher() -> Launcher:
    """Return one for the whole process: what it prepares is the same for all trials."""
    return Launcher()


class Namespaces:
    """The default sandbox on Linux: what bubblewrap does, at a fraction of its cost."""

    name = "namespaces"

    def __init__(self, launcher: Launcher | None = None) -> None:
        self._launcher = launcher or _shared_launcher()
        self._warm: WarmPool | None = None

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """List the protections that cannot be given on this machine."""
        from loopty.sandboxes.gaps import namespace_gaps

        return tuple(namespace_gaps())

    async def run(self, launch: Launch, cancel: asyncio.Event) -> Exit:
        """Run to the end, to a bound, or until `cancel` is set; the whole process tree is dead on return.

        As root the trial runs as `trial_owner()`, who must be able to read the mounts. The exit code is 128 plus
        the number of the signal that ended the command, or 127 when the command is not found.
        """
        if launch.warm is not None and (end := await self._run_copy(launch, launch.warm, cancel)) is not None:
            return end
        for is_last in (False, True):
            tree, end = await self._run_once(launch, cancel, None)
            if end is not None:
                return end
            reason = tree.failure or self._launcher.failure()
            # A launcher that was killed is started again, unless the command may have run, or its channel is gone.
            if reason or tree.is_ready or launch.channel is not None or is_last:
                break
            if tree.was_never_started:
                self._launcher.forget_dying()
        # A launcher that dies takes its trials with it: a fault of the sandbox, never of the candidate.
        raise SandboxError(_failure_message(reason))

    async def _run_copy(self, launch: Launch, warm: WarmStart, cancel: asyncio.Event) -> Exit | None:
        """Run a copy of a warm process; None when there is none, and the command starts by itself."""
        # A channel leads to the candidate of an isolated benchmark, whose imports are its own.
        if launch.network or launch.devices or launch.channel is not None:
            warm.on_cold("its commands use the network or devices")
            return None
        from loopty.sandboxes.namespaces.warm.process import WarmPool, WarmRefusal

        if self._warm is None:
            self._warm = WarmPool(Launcher(nests=True))
        try:
            process = await self._warm.process_for(launch, warm)
        except WarmRefusal as refusal:
            warm.on_cold(refusal.reason)
            return None
        tree, end = await self._run_once(launch, cancel, process)
        if end is not None:
            return end
        if tree.is_ready:
            # The copy's pid namespace is below the warm process's, so it died with that: this trial runs again.
            raise WarmProcessLost(_failure_message(""))
        if tree.failure:
            warm.on_cold(self._warm.refuse(warm, tree.failure).reason)
        return None

    async def _run_once(
        self, launch: Launch, cancel: asyncio.Event, process: WarmProcess | None
    ) -> tuple[NamespaceTree, Exit | None]:
        """Run the launch, as a copy of a warm process if one is given; no exit when its sandbox failed."""
        with contextlib.ExitStack() as resources:
            tree = self._start(launch, resources, process)
            stop = await supervise(tree, launch, cancel) or tree.kernel_stop
            seconds = time.monotonic() - tree.start_time
        if tree.code is not None:
            return tree, Exit(tree.code, seconds, stop)
        return tree, Exit(_KILLED, seconds, stop) if stop is not None else None

    def _start(
        self, launch: Launch, resources: contextlib.ExitStack, process: WarmProcess | None
    ) -> NamespaceTree:
        with contextlib.ExitStack() as handed_over:
            if launch.channel is not None:
                close_with(launch.channel, handed_over)
            trial_view.refuse_mount_points_that_a_trial_could_move(launch)
            if process is None:
                trees, by_path = copy_trees(launch.mounts, handed_over), trial_owner() is None
            else:
                trees, by_path = trees_for_copy(self._launcher, launch.mounts, handed_over), False
            pipes, outputs = make_pipes(launch.channel, resources, handed_over)
            groups = []
            if (cgroup := Cgroup.create(launch.bounds)) is not None:
                resources.callback(cgroup.remove)
                groups.append(close_with(cgroup.open_processes(), handed_over))
            if launch.on_start and (freezer := Cgroup.create_freezer(cgroup)) is not None:
                resources.callback(freezer.remove)
                groups.append(close_with(freezer.open_processes(), handed_over))
            else:
                freezer = None
            order = make_order(launch, len(groups), by_path=by_path)
            if process is not None:
                process.set_variables(order)
            order_file = close_with(dump_order(order), handed_over)
            connection = process.start_trial() if process else self._launcher.start_trial(network=launch.network)
            tree = NamespaceTree(connection, pipes, launch, cgroup, freezer)
            resources.callback(tree.close)
            with contextlib.suppress(ConnectionError):
                send_descriptors(connection, [order_file, *outputs, *groups, *trees])
        return tree


def _failure_message(reason: str) -> str:
    from loopty.sandboxes.gaps import remedy

    advice = remedy(reason)
    return f"the namespaces of a trial failed: {reason or 'they were killed from outside'}" + (
        f"; {advice}" if advice else ""
    )


def make_sandbox(_spec: SandboxSpec) -> Namespaces:
    return Namespaces()


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
        """Return Stop.MEMORY when the kernel killed a process of the tree for its memory, else None."""
        return Stop.MEMORY if self._cgroup is not None and self._cgroup.has_run_out_of_memory() else None

    @property
    def was_never_started(self) -> bool:
        """Say whether the launcher has yet to say that it started the first process."""
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
        """Note that the first process has closed its end: it is dead, dying, or was never made."""
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
    """Return the pid of an open process as this process sees it; -1 when it is dead."""
    with Path(f"/proc/self/fdinfo/{pidfd}").open("rb") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(b"Pid:"))
