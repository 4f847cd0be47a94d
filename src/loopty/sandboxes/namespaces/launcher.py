"""loopty's side of the launcher: a resident process that starts the first process of each trial, and what it hands
over to that.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import socket
import subprocess
import sys
import threading
import weakref
from pathlib import Path

from loopty.domain.launch import Launch, Mount, SandboxError
from loopty.kit.process import trial_owner
from loopty.sandboxes import seccomp, trial_view
from loopty.sandboxes.cgroup import high_oom_score
from loopty.sandboxes.gaps import counts_processes_by_namespace
from loopty.sandboxes.namespaces.calls import clone_tree
from loopty.sandboxes.namespaces.launch_order import (
    COPY_SOURCES,
    FAILED,
    WITH_NETWORK,
    WITHOUT_NETWORK,
    LauncherOrder,
    SourceOrder,
    TrialOrder,
    dump_order,
    receive_message,
    send_descriptors,
    send_message,
)
from loopty.sandboxes.root_bind import open_source

# In Python: a launcher in C saved 3 ms of CPU for each trial and 8 ms for each copy of a warm process. Two
# launchers that decide what a trial can reach are not worth that.
_START = """
import sys
sys.path.append(sys.argv[1])
from loopty.sandboxes.namespaces.launcher_program import main
main(int(sys.argv[2]), int(sys.argv[3]))
"""
_PACKAGES = str(Path(__file__).resolve().parents[3])
_MESSAGE_BYTES = 1 << 12
_DYING_SECONDS = 1.0


class Launcher:
    """Starts the resident process when it is needed, and again when it has died. Any thread may use it.

    The process ends when this object or this process does: the kernel closes the connection in both cases.
    """

    def __init__(self, *, nests: bool = False) -> None:
        """`nests`: it starts warm processes, which make namespaces themselves."""
        # Nobody can guess 64 bits, and the processes that know them cannot be read. A warm process would leave
        # them in the memory of its copies.
        self._token = 0 if nests else int.from_bytes(os.urandom(8), "little")
        self._call_filter = seccomp.program(os.uname().machine, nests=nests, token=self._token)
        self._lock = threading.Lock()
        self._resident: _ResidentProcess | None = None

    @property
    def order(self) -> LauncherOrder:
        """Return what is the same for every trial."""
        return LauncherOrder(
            owner=trial_owner(),
            uid=trial_view.UID,
            gid=trial_view.GID,
            host_name=trial_view.HOST_NAME,
            system=tuple((entry.path, entry.source, entry.is_link) for entry in trial_view.system_entries()),
            call_filter=self._call_filter,
            copy_filter=seccomp.program(os.uname().machine),
            token=self._token,
        )

    @property
    def order_for_copies(self) -> LauncherOrder:
        """Return the same for a warm process, whose memory becomes that of trials."""
        order = self.order
        order.call_filter = None
        return order

    def start_trial(self, *, network: bool) -> socket.socket:
        """Start the first process of a trial and return the connection to it.

        The launcher sends the process's pid with a pidfd. When the launcher has died, the connection is at its
        end. Raises SandboxError when the launcher cannot be started.
        """
        return self._start_process(WITH_NETWORK if network else WITHOUT_NETWORK)

    def copy_sources(self, paths: tuple[str, ...]) -> list[int]:
        """Copy the trees at these paths of the host, for a trial that another process starts.

        Raises SandboxError when a path cannot be shown, or when the launcher has died.
        """
        with self._start_process(COPY_SOURCES) as connection:
            order = dump_order(SourceOrder(paths=paths))
            try:
                send_descriptors(connection, [order])
                trees, failure = _receive_trees(connection, len(paths))
            except ConnectionError:
                trees, failure = [], "the launcher was killed"
            finally:
                os.close(order)
        if failure:
            raise SandboxError(f"cannot show a trial its files: {failure}")
        return trees

    def _start_process(self, message: bytes) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._lock:
            for _ in range(2):
                if self._resident is None or not self._resident.is_alive():
                    self._resident = self._start_resident()
                with contextlib.suppress(ConnectionError):
                    self._resident.hand_over(theirs.fileno(), message)
                    return ours
        # The caller finds the connection at its end, as when the launcher dies a moment later.
        return ours

    def _start_resident(self) -> _ResidentProcess:
        return _ResidentProcess(self.order)

    def failure(self) -> str:
        """Say why the resident process could not begin; empty when it could, or was killed."""
        with self._lock:
            return "" if self._resident is None else self._resident.failure()

    def forget_dying(self) -> None:
        """Let the next trial start the process again: it has closed its side, but may still seem alive."""
        with self._lock:
            if self._resident is not None and self._resident.is_dying():
                self._resident = None


class _ResidentProcess:
    """The resident process and the connection over which it gets trials to start."""

    def __init__(self, launcher_order: LauncherOrder) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        order = dump_order(launcher_order)
        try:
            with theirs, high_oom_score():
                process = _start_program(order, theirs.fileno())
        except OSError as error:
            ours.close()
            raise SandboxError(f"cannot start {sys.executable}: {error.strerror}") from error
        finally:
            os.close(order)
        self.pid = process.pid
        self._connection = ours
        self._identity = _identity(ours)
        self._failure = ""
        weakref.finalize(self, _end, ours, self._identity, process, os.getpid())

    def is_alive(self) -> bool:
        return not self._has_hung_up(0.0)

    def is_dying(self) -> bool:
        """Say whether the process is dead within a moment."""
        return self._has_hung_up(_DYING_SECONDS)

    def _has_hung_up(self, seconds: float) -> bool:
        """Say whether the process closes its side within this time, at the latest when it dies."""
        # Not by its pid: a process that was forked from its parent uses it, too.
        if _identity(self._connection) != self._identity:
            return True
        events = select.poll()
        events.register(self._connection, 0)
        return bool(events.poll(seconds * 1000))

    def hand_over(self, trial: int, message: bytes) -> None:
        """Send it the message and the trial's connection. Raises ConnectionError when the process is dead."""
        send_message(self._connection, message, [trial])

    def failure(self) -> str:
        if _identity(self._connection) != self._identity:
            return self._failure
        # The kernel reports once that the process did not read all, before what it said.
        for _ in range(2):
            with contextlib.suppress(OSError):
                message = self._connection.recv(_MESSAGE_BYTES, socket.MSG_DONTWAIT)
                if message.startswith(FAILED):
                    self._failure = message.removeprefix(FAILED).decode(errors="replace")
        return self._failure


def _start_program(order: int, connection: int) -> subprocess.Popen[bytes]:
    words = (sys.executable, "-I", "-S", "-c", _START, _PACKAGES, str(order), str(connection))
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(order, connection),
        env={},
        cwd="/",
        start_new_session=True,
    )


def _receive_trees(connection: socket.socket, count: int) -> tuple[list[int], str]:
    """Receive the copies that a process of the launcher sends, or why there are none."""
    trees: list[int] = []
    while len(trees) < count:
        message, descriptors = receive_message(connection, _MESSAGE_BYTES)
        trees += descriptors
        if message.startswith(FAILED) or not message:
            for tree in trees:
                os.close(tree)
            return [], message.removeprefix(FAILED).decode(errors="replace") or "the launcher was killed"
    return trees, ""


def _identity(connection: socket.socket) -> int | None:
    """Tell what the descriptor leads to: a forked process may have closed it, and reused its number."""
    try:
        return os.fstat(connection.fileno()).st_ino
    except OSError:
        return None


def _end(connection: socket.socket, identity: int | None, process: subprocess.Popen[bytes], owner: int) -> None:
    # A forked child inherits this finalizer, and must not wait for its parent's process.
    if _identity(connection) == identity:
        connection.close()
    else:
        connection.detach()
    if os.getpid() == owner:
        process.wait()


_RESOLVER = Path("/etc/resolv.conf")


def make_order(launch: Launch, groups: int, *, by_path: bool, nests: bool = False) -> TrialOrder:
    """Make the order; `by_path`: the launcher copies the trees, `nests`: the command is a warm process."""
    # None on the address space: CUDA reserves far more than it uses.
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, launch.bounds.disk_mb << 20)]
    # The copies of a warm process count as its own, and have limits of their own.
    if counts_processes_by_namespace() and not nests:
        # The kernel counts the threads in the trial's own user namespace, its first process included.
        limits.append((resource.RLIMIT_NPROC, launch.bounds.processes + 1))
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
        nests=nests,
    )


def copy_trees(mounts: tuple[Mount, ...], handed_over: contextlib.ExitStack) -> list[int]:
    """Copy the trees at bind sources, whose paths the unprivileged user may be unable to reach.

    None where trials run as the current user, who has no right to make one here: the launcher makes it then.
    """
    trees = []
    for mount in mounts:
        descriptor = open_source(mount.source)
        try:
            if trial_owner() is not None:
                trees.append(close_with(clone_tree(descriptor), handed_over))
        except OSError as error:
            words = f"cannot show {mount.source} to an unprivileged user: {error.strerror}"
            raise SandboxError(words) from error
        finally:
            os.close(descriptor)
    return trees


def trees_for_copy(launcher: Launcher, mounts: tuple[Mount, ...], handed_over: contextlib.ExitStack) -> list[int]:
    """Copy the trees at bind sources, for a copy of a warm process: it cannot reach any path of the host."""
    trees = copy_trees(mounts, handed_over)
    if trial_owner() is None and mounts:
        trees = launcher.copy_sources(tuple(str(mount.source) for mount in mounts))
        for tree in trees:
            close_with(tree, handed_over)
    return trees


def make_pipes(
    channel: int | None, resources: contextlib.ExitStack, handed_over: contextlib.ExitStack
) -> tuple[tuple[int | None, int], list[int]]:
    """Make the outputs' pipes: ends to read from, None where a channel is the output, and ends to hand over."""
    ends = [os.pipe2(os.O_CLOEXEC) for _ in range(1 if channel is not None else 2)]
    for ours, theirs in ends:
        close_with(ours, resources)
        close_with(theirs, handed_over)
    if channel is not None:
        return (None, ends[0][0]), [channel, ends[0][1]]
    return (ends[0][0], ends[1][0]), [theirs for _, theirs in ends]


def close_with(descriptor: int, stack: contextlib.ExitStack) -> int:
    stack.callback(os.close, descriptor)
    return descriptor
