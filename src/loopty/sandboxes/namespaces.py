"""Run a launch in namespaces that loopty makes itself, by a resident launcher: the default, and the cheapest."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import resource
import select
import signal
import socket
import time
from pathlib import Path

from loopty.domain.launch import Exit, Gap, Launch, SandboxError, Stop
from loopty.domain.task import SandboxSpec
from loopty.sandboxes import trial_view
from loopty.sandboxes.cgroup import Cgroup
from loopty.sandboxes.kernel_features import counts_processes_by_namespace
from loopty.sandboxes.launcher import Launcher
from loopty.sandboxes.namespace_gaps import namespace_gaps
from loopty.sandboxes.namespace_launcher.launch_order import (
    ENDED,
    FAILED,
    GO,
    READY,
    TrialOrder,
    dump_order,
    receive_message,
    send_descriptors,
)
from loopty.sandboxes.namespace_launcher.namespace_calls import clone_tree
from loopty.sandboxes.resource_usage import Footprint, threads_of_tree
from loopty.sandboxes.root_bind import open_source
from loopty.sandboxes.signal_freezer import SignalFreezer
from loopty.sandboxes.supervise import supervise
from loopty.sandboxes.trial_user import trial_owner

_KILLED = 128 + signal.SIGKILL
_RESOLVER = Path("/etc/resolv.conf")
# The launcher forks within milliseconds, or is dead, or was stopped.
_START_SECONDS = 10.0
_MESSAGE_BYTES = 1 << 13


@functools.cache
def _shared_launcher() -> Launcher:
    """One for the whole process: what it prepares is the same for all trials."""
    return Launcher()


def prepare_launcher() -> int | None:
    """Start the launcher for this process and those forked from it; the descriptor that they need, or None."""
    return _shared_launcher().prepare()


class Namespaces:
    """The default sandbox on Linux: what bubblewrap does, at a fraction of its cost."""

    name = "namespaces"

    def __init__(self, launcher: Launcher | None = None) -> None:
        self._launcher = launcher or _shared_launcher()
        self._owner = trial_owner()

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The protections that cannot be given on this machine."""
        return tuple(namespace_gaps())

    async def run(self, launch: Launch, cancel: asyncio.Event) -> Exit:
        """Run to the end, to a bound, or until `cancel` is set; the whole process tree is dead on return.

        As root the trial runs as `trial_owner()`, who must be able to read the mounts. The exit code is 128 plus
        the number of the signal that ended the command, or 127 when the command is not found.
        """
        for is_last in (False, True):
            with contextlib.ExitStack() as resources:
                tree = self._start(launch, resources)
                stop = await supervise(tree, launch, cancel) or tree.kernel_stop
                seconds = time.monotonic() - tree.start_time
            if tree.code is not None:
                return Exit(tree.code, seconds, stop)
            if stop is not None:
                return Exit(_KILLED, seconds, stop)
            reason = tree.failure or self._launcher.failure()
            # A launcher that was killed is started again, unless the command may have run, or its channel is gone.
            if reason or tree.is_ready or launch.channel is not None or is_last:
                break
            if tree.was_never_started:
                self._launcher.forget_dying()
        raise SandboxError(_failure_message(reason))

    def _start(self, launch: Launch, resources: contextlib.ExitStack) -> _NamespaceTree:
        with contextlib.ExitStack() as handed_over:
            if launch.channel is not None:
                _close_with(launch.channel, handed_over)
            trial_view.refuse_mount_points_that_a_trial_could_move(launch)
            trees = [tree for mount in launch.mounts for tree in self._copy_tree(mount.source, handed_over)]
            pipes, outputs = _make_pipes(launch.channel, resources, handed_over)
            groups = []
            if (cgroup := Cgroup.create(launch.bounds)) is not None:
                resources.callback(cgroup.remove)
                groups.append(_close_with(cgroup.open_processes(), handed_over))
            if launch.on_start and (freezer := Cgroup.create_freezer(cgroup)) is not None:
                resources.callback(freezer.remove)
                groups.append(_close_with(freezer.open_processes(), handed_over))
            else:
                freezer = None
            order = _close_with(dump_order(self._order(launch, len(groups))), handed_over)
            connection = self._launcher.start_trial(network=launch.network)
            tree = _NamespaceTree(connection, pipes, launch, cgroup, freezer)
            resources.callback(tree.close)
            with contextlib.suppress(ConnectionError):
                send_descriptors(connection, [order, *outputs, *groups, *trees])
        return tree

    def _copy_tree(self, source: Path, handed_over: contextlib.ExitStack) -> list[int]:
        """A copy of the tree at a bind source, whose path the unprivileged user may be unable to reach.

        None where trials run as the current user, who has no right to make one here: the launcher makes it then.
        """
        descriptor = open_source(source)
        try:
            return [_close_with(clone_tree(descriptor), handed_over)] if self._owner is not None else []
        except OSError as error:
            raise SandboxError(f"cannot show {source} to an unprivileged user: {error.strerror}") from error
        finally:
            os.close(descriptor)

    def _order(self, launch: Launch, groups: int) -> TrialOrder:
        limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, launch.bounds.disk_mb << 20)]
        if counts_processes_by_namespace():
            # The kernel counts the threads in the trial's own user namespace, its first process included.
            limits.append((resource.RLIMIT_NPROC, launch.bounds.processes + 1))
        by_path = self._owner is None
        return TrialOrder(
            argv=launch.argv,
            cwd=launch.cwd,
            env=trial_view.environment_of(launch),
            home=trial_view.HOME,
            temporary=trial_view.TEMPORARY,
            scratch=launch.scratch,
            disk_bytes=launch.bounds.disk_mb << 20,
            mounts=tuple(
                (mount.target, str(mount.source) if by_path else None, mount.writable) for mount in launch.mounts
            ),
            links=tuple(trial_view.links_of(launch)),
            devices=launch.devices,
            facts=trial_view.facts_of_devices(launch),
            network=launch.network,
            resolver=str(_RESOLVER.resolve()) if launch.network and _RESOLVER.exists() else "",
            channel=launch.channel is not None,
            groups=groups,
            limits=tuple(limits),
            waits=launch.on_start is not None,
        )


class _NamespaceTree:
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
        self._pid: int | None = None
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
        return self._pid is None

    def excess(self) -> Stop | None:
        if self._pid is None or not self.is_ready:
            return None
        if self._footprint is None:
            self._footprint = Footprint(
                self._pid,
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
            if _is_readable(self._number, left):
                self._on_message()
        if self._pidfd is not None:
            _is_readable(self._pidfd, None)
        self._dead.set()

    def close(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._number)
        self._connection.close()
        if self._pidfd is not None:
            loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
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
            self._pid = int(message)
            (self._pidfd,) = descriptors
            if self._is_killed:
                self.kill()
        if self.is_ready and self._pid is not None:
            self._release_command(self._pid)

    def _release_command(self, first_pid: int) -> None:
        """Say how the processes can be stopped, by their cgroup, else by signals, and let the command start."""
        if self._is_released or self._launch.on_start is None:
            return
        self._is_released = True
        self._launch.on_start(self._freezer or SignalFreezer(lambda: threads_of_tree(first_pid)))
        with contextlib.suppress(OSError):
            self._connection.send(GO)

    def _on_end(self) -> None:
        """The first process has closed its end: it is dead, dying, or was never made."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._number)
        if self._pidfd is None or _is_readable(self._pidfd, 0):
            self._dead.set()
        else:
            loop.add_reader(self._pidfd, self._on_death, self._pidfd)

    def _on_death(self, pidfd: int) -> None:
        asyncio.get_running_loop().remove_reader(pidfd)
        self._dead.set()


def _make_pipes(
    channel: int | None, resources: contextlib.ExitStack, handed_over: contextlib.ExitStack
) -> tuple[tuple[int | None, int], list[int]]:
    """The ends of the outputs' pipes: to read from, None where a channel is the output, and to hand over."""
    ends = [os.pipe2(os.O_CLOEXEC) for _ in range(1 if channel is not None else 2)]
    for ours, theirs in ends:
        _close_with(ours, resources)
        _close_with(theirs, handed_over)
    if channel is not None:
        return (None, ends[0][0]), [channel, ends[0][1]]
    return (ends[0][0], ends[1][0]), [theirs for _, theirs in ends]


def _is_readable(descriptor: int, seconds: float | None) -> bool:
    return bool(select.select([descriptor], [], [], seconds)[0])


def _close_with(descriptor: int, stack: contextlib.ExitStack) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


def _failure_message(reason: str) -> str:
    from loopty.sandboxes.remedies import remedy

    advice = remedy(reason)
    return f"the namespaces of a trial failed: {reason or 'they were killed from outside'}" + (
        f"; {advice}" if advice else ""
    )


def make_sandbox(_spec: SandboxSpec) -> Namespaces:
    return Namespaces()
