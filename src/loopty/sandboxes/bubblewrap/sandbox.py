"""Run a launch under bubblewrap: own namespaces, a read-only system, no privileges, no survivors."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from loopty.domain.launch import Exit, Gap, Launch, SandboxError, Stop
from loopty.domain.task import SandboxSpec
from loopty.kit.process import trial_owner
from loopty.kit.sockets import is_readable
from loopty.sandboxes import seccomp, trial_view
from loopty.sandboxes.cgroup import Cgroup, high_oom_score
from loopty.sandboxes.gaps import counts_processes_by_namespace, namespace_gaps, remedy
from loopty.sandboxes.resource_usage import Footprint, threads_of_tree
from loopty.sandboxes.root_bind import BindAliases, open_source
from loopty.sandboxes.supervise import SignalFreezer, pipes_of, supervise, wait_readable

_PR_SET_CHILD_SUBREAPER = 36
_KILLED = 128 + signal.SIGKILL
# bubblewrap reports its child's pid within milliseconds, or dies.
_STATUS_SECONDS = 10.0
_STATUS_BYTES = 1 << 16
_PACKAGES = {"bwrap": "bubblewrap", "prlimit": "util-linux", "setpriv": "util-linux"}

# --die-with-parent takes effect only once bubblewrap has set up its processes; a trial would outlive a loopty that
# is killed in the milliseconds before. So the command waits behind this guard, which greets us on its standard
# input and goes on only when we answer: then we are alive, and the processes around it are bound to us.
_GUARD = ("/bin/sh", "-c", 'echo >&0 && read -r _ && exec "$@" </dev/null', "guard")
# The channel is passed as standard output, because some shells cannot name a descriptor above 9.
_GUARD_OF_CHANNEL = ("/bin/sh", "-c", 'echo >&0 && read -r _ && exec "$@" <&1', "guard")
_MESSAGE_BYTES = 1000


class Bubblewrap:
    """The sandbox where bubblewrap may make user namespaces, and Python may not.

    One instance serves one thread, and that thread starts every trial: a trial dies with the thread that
    started it (PR_SET_PDEATHSIG), and only that thread sees the aliases made for an unprivileged user. The
    process becomes a subreaper: bubblewrap leaves each trial's first process to the process that inherits
    orphans, and in a container that is often a program that never reaps.
    """

    name = "bubblewrap"

    def __init__(self) -> None:
        self._programs = {name: shutil.which(name) for name in _PACKAGES}
        self._system = system_options()
        self._filter = seccomp.program(os.uname().machine)
        self._owner = trial_owner()
        self._aliases = None if self._owner is None else BindAliases(*self._owner)
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """List the protections that bubblewrap cannot give on this machine."""
        return tuple(namespace_gaps())

    async def run(self, launch: Launch, cancel: asyncio.Event) -> Exit:
        """Run to the end, to a bound, or until `cancel` is set; the whole process tree is dead on return.

        As root the trial runs as `trial_owner()`, who must be able to read the mounts. The exit code is 128 plus
        the number of the signal that ended the command, or 127 when the command is not found.
        """
        with contextlib.ExitStack() as resources:
            tree = self._start(launch, resources)
            stop = await supervise(tree, launch, cancel) or tree.kernel_stop
            seconds = time.monotonic() - tree.start_time
        if tree.problem:
            raise SandboxError(f"cannot bound the memory of a trial: {tree.problem}")
        if tree.code is not None:
            return Exit(tree.code, seconds, stop)
        if stop is not None:
            return Exit(_KILLED, seconds, stop)
        raise SandboxError(_failure(launch.stderr))

    def _start(self, launch: Launch, resources: contextlib.ExitStack) -> _Namespace:
        if (cgroup := Cgroup.create(launch.bounds)) is not None:
            resources.callback(cgroup.remove)
        # A file: a pipe that nobody reads any more would kill bubblewrap halfway.
        status = _close_with(_memory_file(b""), resources)
        ours, theirs = socket.socketpair()
        resources.enter_context(ours)
        with contextlib.ExitStack() as handed_over:
            handed_over.enter_context(theirs)
            if launch.channel is not None:
                _close_with(launch.channel, handed_over)
            sources = [_close_with(self._open_source(mount.source), handed_over) for mount in launch.mounts]
            options = [
                *self._system,
                *trial_options(launch, sources),
                "--json-status-fd",
                str(status),
            ]
            inherited = [*sources, status]
            if self._filter is not None:
                inherited.append(_close_with(_memory_file(self._filter), handed_over))
                options += ["--seccomp", str(inherited[-1])]
            # Options go by descriptor, because the trial can read the command line of its first process.
            inherited.append(_close_with(_memory_file(_join_with_nulls(options)), handed_over))
            command = [
                self._program_path("bwrap"),
                "--args",
                str(inherited[-1]),
                "--",
                *(_GUARD if launch.channel is None else _GUARD_OF_CHANNEL),
                self._program_path("prlimit"),
                *_limit_options(launch),
                "--",
                *launch.argv,
            ]
            process = _start_process(self._as_trial_user(command), theirs, inherited, launch.channel)
        resources.enter_context(process)
        resources.callback(process.kill)
        freezer = None
        if launch.on_start and (freezer := Cgroup.create_freezer(cgroup)) is not None:
            resources.callback(freezer.remove)
        tree = _Namespace(process, status, ours, launch, cgroup, freezer)
        resources.callback(tree.close)
        return tree

    def _program_path(self, name: str) -> str:
        if (path := self._programs[name]) is None:
            raise SandboxError(f"{name} is not installed: apt install {_PACKAGES[name]}")
        return path

    def _open_source(self, source: Path) -> int:
        # bubblewrap resolves the path behind the descriptor again, as the unprivileged user, and fails when it
        # finds another file there.
        return open_source(source if self._aliases is None else self._aliases.reachable_path(source))

    def _as_trial_user(self, command: list[str]) -> list[str]:
        if self._owner is None:
            return command
        # By a program, because Python forks its whole memory when it changes the user itself.
        uid, gid = self._owner
        return [
            self._program_path("setpriv"),
            f"--reuid={uid}",
            f"--regid={gid}",
            "--clear-groups",
            "--",
            *command,
        ]


class _Namespace:
    """A process tree in a pid namespace: when its first process dies, the kernel kills all others."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        status: int,
        guard: socket.socket,
        launch: Launch,
        cgroup: Cgroup | None,
        freezer: Cgroup | None,
    ) -> None:
        self.pipes = pipes_of(process)
        self.code: int | None = None
        self.problem = ""
        self.start_time = time.monotonic()
        self._process = process
        self._bwrap_pidfd = os.pidfd_open(process.pid)
        self._status = status
        self._guard = guard
        self._launch = launch
        self._first_pidfd: int | None = None
        self._first_pid: int | None = None
        self._footprint: Footprint | None = None
        self._cgroup = cgroup
        self._freezer = freezer
        # Only its children matter, but the first admission takes longest; so bubblewrap itself is admitted while
        # it sets up.
        self._tasks = [asyncio.create_task(self._admit(process.pid))]
        asyncio.get_running_loop().add_reader(guard, self._on_greeting)

    @property
    def kernel_stop(self) -> Stop | None:
        """Return Stop.MEMORY when the kernel killed a process of the tree for its memory, else None."""
        return Stop.MEMORY if self._cgroup is not None and self._cgroup.has_run_out_of_memory() else None

    def excess(self) -> Stop | None:
        if self._first_pid is None:
            return None
        if self._footprint is None:
            root = Path(f"/proc/{self._first_pid}/root")
            self._footprint = Footprint(
                self._first_pid,
                tuple(
                    root / directory.lstrip("/") for directory in trial_view.temporary_directories(self._launch)
                ),
                tuple(mount for mount in self._launch.mounts if mount.writable),
            )
        return self.kernel_stop or self._footprint.excess(self._launch.bounds)

    def kill(self) -> None:
        # During set-up the first process outlives bubblewrap, so we must know its pid before we kill anything.
        deadline = time.monotonic() + _STATUS_SECONDS
        while (
            self._first_pid is None and time.monotonic() < deadline and not is_readable(self._bwrap_pidfd, 0.001)
        ):
            self._read_status()
        if self._first_pidfd is None:
            self._process.kill()
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._first_pidfd, signal.SIGKILL)
        if self._freezer is not None:
            self._freezer.thaw()

    async def wait_until_dead(self) -> None:
        await wait_readable(self._bwrap_pidfd)
        self._read_status()
        if self._first_pidfd is not None:
            # bubblewrap exits as soon as the command does; processes that the command left may still be alive.
            self.kill()
            await wait_readable(self._first_pidfd)
        self.kill_and_wait()

    def kill_and_wait(self) -> None:
        if self._process.returncode is not None:
            return
        self.kill()
        self._process.wait()
        if self._first_pidfd is not None:
            is_readable(self._first_pidfd, None)
            # It is our child by now, unless bubblewrap had time to reap it.
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PIDFD, self._first_pidfd, os.WEXITED | os.WNOHANG)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._guard)
        for task in self._tasks:
            task.cancel()
        os.close(self._bwrap_pidfd)
        if self._first_pidfd is not None:
            os.close(self._first_pidfd)

    def _on_greeting(self) -> None:
        asyncio.get_running_loop().remove_reader(self._guard)
        with contextlib.suppress(ConnectionError):
            if self._guard.recv(1):
                self._tasks.append(asyncio.create_task(self._release_command()))

    async def _release_command(self) -> None:
        self._read_status()
        if self._first_pid is not None:
            await self._admit(*threads_of_tree(self._first_pid))
            await self._offer_freezer(self._first_pid)
        if self.problem:
            self.kill()
            return
        self.start_time = time.monotonic()
        with contextlib.suppress(ConnectionError):
            self._guard.send(b"\n")

    async def _offer_freezer(self, first_pid: int) -> None:
        """Say how the processes can be stopped: by their cgroup, else by signals."""
        if self._launch.on_start is None:
            return
        if self._freezer is None:
            self._launch.on_start(SignalFreezer(lambda: threads_of_tree(first_pid)))
            return
        try:
            await asyncio.to_thread(self._freezer.admit, *threads_of_tree(first_pid))
        except OSError as error:
            self.problem = f"{error.strerror}"
        self._launch.on_start(self._freezer)

    async def _admit(self, *pids: int) -> None:
        if self._cgroup is None:
            return
        try:
            await asyncio.to_thread(self._cgroup.admit, *pids)
        except OSError as error:
            self.problem = f"{error.strerror}"

    def _read_status(self) -> None:
        lines = os.pread(self._status, _STATUS_BYTES, 0).split(b"\n")[:-1]
        for fields in map(json.loads, lines):
            if "child-pid" in fields and self._first_pid is None:
                self._first_pid = fields["child-pid"]
                with contextlib.suppress(ProcessLookupError):
                    self._first_pidfd = os.pidfd_open(fields["child-pid"])
            # bubblewrap writes this only once the command has started; without it the sandbox has failed.
            self.code = fields.get("exit-code", self.code)


def _start_process(
    command: list[str], guard: socket.socket, inherited: list[int], channel: int | None
) -> subprocess.Popen[bytes]:
    try:
        with high_oom_score():
            return subprocess.Popen(
                command,
                stdin=guard.fileno(),
                stdout=subprocess.PIPE if channel is None else channel,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=inherited,
                env={},
                cwd="/",
            )
    except OSError as error:
        raise SandboxError(f"cannot start {command[0]}: {error.strerror}") from error


def _limit_options(launch: Launch) -> list[str]:
    """Return options for prlimit, which runs inside: outside even root may lack the right to set limits."""
    limits = ["--core=0", f"--fsize={launch.bounds.disk_mb << 20}"]
    if counts_processes_by_namespace():
        # The kernel counts the threads in the trial's own user namespace, bubblewrap's reaper included.
        limits.append(f"--nproc={launch.bounds.processes + 1}")
    return limits


def _failure(stderr: Path) -> str:
    with stderr.open("rb") as file:
        message = file.read(_MESSAGE_BYTES).decode(errors="replace").strip().partition("\n")[0]
    message = message.removeprefix("bwrap: ") or "it was killed from outside"
    advice = remedy(message)
    return f"bubblewrap failed: {message}" + (f"; {advice}" if advice else "")


def _join_with_nulls(options: list[str]) -> bytes:
    return b"".join(os.fsencode(option) + b"\0" for option in options)


def _memory_file(content: bytes) -> int:
    descriptor = os.memfd_create("loopty")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _close_with(descriptor: int, stack: contextlib.ExitStack) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


def make_sandbox(_spec: SandboxSpec) -> Bubblewrap:
    return Bubblewrap()


def system_options() -> tuple[str, ...]:
    """Return the options that are the same for every trial on this machine."""
    return tuple(_system_options())


def _system_options() -> Iterator[str]:
    yield from ("--unshare-all", "--unshare-user", "--disable-userns")
    yield from ("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv")
    yield from ("--hostname", trial_view.HOST_NAME)
    yield from ("--uid", str(trial_view.UID), "--gid", str(trial_view.GID))
    for entry in trial_view.system_entries():
        yield from ("--symlink" if entry.is_link else "--ro-bind", entry.source, entry.path)
    yield from ("--proc", "/proc", "--dev", "/dev")


def trial_options(launch: Launch, sources: Sequence[int]) -> Iterator[str]:
    """Yield the options for this launch; `sources` are open descriptors of its mounts' sources, in order.

    Mounts keep their order, each over the earlier ones; scratch directories come over the mounts.
    """
    trial_view.refuse_mount_points_that_a_trial_could_move(launch)
    if launch.network:
        yield from ("--share-net", "--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf")
    size = str(launch.bounds.disk_mb << 20)
    for directory in trial_view.TEMPORARY:
        yield from ("--size", size, "--tmpfs", directory)
    yield from ("--dir", trial_view.HOME)
    for mount, source in zip(launch.mounts, sources, strict=True):
        yield from ("--bind-fd" if mount.writable else "--ro-bind-fd", str(source), mount.target)
    for directory in launch.scratch:
        yield from ("--size", size, "--tmpfs", directory)
    for path, leads_to in trial_view.links_of(launch):
        yield from ("--symlink", leads_to, path)
    for device in launch.devices:
        yield from ("--dev-bind", device, device)
    for path in trial_view.facts_of_devices(launch):
        yield from ("--ro-bind", path, path)
    yield from ("--remount-ro", "/dev", "--remount-ro", "/")
    for name, value in trial_view.environment_of(launch).items():
        yield from ("--setenv", name, value)
    yield from ("--chdir", launch.cwd)
