"""Run a launch in a container of podman or docker: the image has the toolchain, the launch has the rest, and none
outlives loopty.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path

from loopty.domain.launch import Exit, Gap, Launch, Protection, SandboxError, Stop
from loopty.domain.task import SandboxSpec
from loopty.kit.process import trial_owner
from loopty.kit.temporary_folder import common_prefix, fresh_name, is_abandoned, prefix_of
from loopty.sandboxes.container import options
from loopty.sandboxes.container.engine import (
    ContainerEngine,
    ContainerState,
    EngineKind,
    engine_environment,
    engine_of,
    failure_message,
    limits_to_inherit,
)
from loopty.sandboxes.container.options import ContainerSetup, run_options, temporary_directories
from loopty.sandboxes.resource_usage import Footprint, threads_of_tree
from loopty.sandboxes.root_bind import open_source
from loopty.sandboxes.supervise import SignalFreezer, pipes_of, supervise
from loopty.sandboxes.trial_view import refuse_mount_points_that_a_trial_could_move

_KILLED = 128 + signal.SIGKILL
_NOT_FOUND = 127
_MESSAGE_BYTES = 4000
# podman's init prints this before it exits with 1, which is also a code that a command may return.
_COMMAND_NOT_FOUND = b"failed to exec pid1"
# An engine's program first finishes what it is writing when it gets SIGTERM.
_EXIT_SECONDS = 10.0
_NO_CONTROLLER = "no controller for it: a rootless engine needs cgroup v2 with delegation"


class Container:
    """A sandbox that calls the command line of a container engine: podman, docker, or "auto" for the first found.

    The image must be on this machine. Its name is resolved to its content once, so that all trials of this
    instance get the same image. Its own variables stay; its entry point, user, volumes and health check do not.
    """

    def __init__(self, engine: str, image: str, gpus: bool) -> None:
        self._engine_name = engine
        self._image = image
        self._gpus = gpus
        self._engine: ContainerEngine | None = None
        self._setup: ContainerSetup | None = None
        self._preparation = asyncio.Lock()

    @property
    def name(self) -> str:
        """Include the content id of the image, because the image is the toolchain of the trials."""
        try:
            image = self._find_engine().image(self._image).id[:19]
            return f"container {self._image} ({image})" + (" with GPUs" if self._gpus else "")
        except SandboxError:
            return f"container {self._image}"

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """List the protections that the engine does not give; empty if it does not answer: then nothing runs."""
        try:
            return tuple(_gaps(self._find_engine()))
        except SandboxError:
            return ()

    async def run(self, launch: Launch, cancel: asyncio.Event) -> Exit:
        """Run to the end, to a bound, or until `cancel` is set; the container is dead and removed on return.

        As root the trial runs as `trial_owner()`, who must be able to read the mounts. The exit code is 128 plus
        the number of the signal that ended the command, or 127 when the command is not found. The time that the
        engine needs to start, a fifth of a second or more, counts.
        """
        with contextlib.ExitStack() as ours:
            if launch.channel is not None:
                ours.callback(os.close, launch.channel)
            refuse_mount_points_that_a_trial_could_move(launch)
            for mount in launch.mounts:
                os.close(open_source(mount.source))
            async with self._preparation:
                if self._setup is None:
                    self._setup = await asyncio.to_thread(self._prepare)
            container = _start(self._setup, launch)
        with contextlib.closing(container):
            stop = await supervise(container, launch, cancel)
        if stop is not None:
            return Exit(_KILLED, container.seconds, stop)
        return self._exit_of(container, self._setup.engine, launch)

    def _exit_of(self, container: _RunningContainer, engine: ContainerEngine, launch: Launch) -> Exit:
        if container.succeeded:
            return Exit(0, container.seconds)
        if container.state is None or not container.state.started:
            raise SandboxError(
                failure_message(engine.program, _first_bytes(launch.stderr).decode(errors="replace"), self._image)
            )
        if container.state.first_pid:
            raise SandboxError(f"{engine.program} exited before its container ended")
        code = container.state.code
        if code == 1 and _COMMAND_NOT_FOUND in _first_bytes(launch.stderr):
            code = _NOT_FOUND
        return Exit(code, container.seconds, Stop.MEMORY if container.state.out_of_memory else None)

    def _find_engine(self) -> ContainerEngine:
        if self._engine is None:
            self._engine = engine_of(self._engine_name)
        return self._engine

    def _prepare(self) -> ContainerSetup:
        engine = self._find_engine()
        image = engine.image(self._image)
        remove_abandoned(engine)
        weakref.finalize(self, start_watcher(engine))
        profile, remove = options.write_profile(engine.profile)
        weakref.finalize(self, remove)
        return ContainerSetup(engine, image, self._gpus, _trial_user(engine), limits_to_inherit(), profile)


class _RunningContainer:
    """A container and the engine's program attached to it. The program is ended first, then the container."""

    def __init__(self, process: subprocess.Popen[bytes], name: str, setup: ContainerSetup, launch: Launch) -> None:
        self.pipes = pipes_of(process)
        self.seconds = 0.0
        self.succeeded = False
        self.state: ContainerState | None = None
        self._start_time = time.monotonic()
        self._process = process
        self._program_pidfd = os.pidfd_open(process.pid)
        self._name = name
        self._engine = setup.engine
        self._launch = launch
        self._temporary = temporary_directories(setup, launch)
        self._first_pid: int | None = None
        self._footprint: Footprint | None = None
        self._is_over = asyncio.Event()
        self._lock = threading.Lock()
        self._is_removed = False
        self._freezer = SignalFreezer(self._pids_alive)
        if launch.on_start:
            launch.on_start(self._freezer)

    def _pids_alive(self) -> Iterable[int]:
        """List the container's processes on this host. Raises OSError if they are not visible."""
        if not (first := self._find_first_pid()):
            raise ProcessLookupError("the processes of the container are not visible here")
        return threads_of_tree(first)

    def _find_first_pid(self) -> int | None:
        with self._lock:
            if self._first_pid is None and not self._is_removed:
                self._first_pid = self._first_process()
        return self._first_pid

    def excess(self) -> Stop | None:
        if self._find_first_pid() is None:
            return None
        assert self._first_pid is not None
        if self._footprint is None:
            root = Path(f"/proc/{self._first_pid}/root")
            self._footprint = Footprint(
                self._first_pid,
                tuple(root / directory.lstrip("/") for directory in self._temporary) if self._first_pid else (),
                tuple(mount for mount in self._launch.mounts if mount.writable),
            )
        return self._footprint.excess(self._launch.bounds)

    def kill(self) -> None:
        if self._launch.on_start:
            with contextlib.suppress(OSError):  # a stopped process does not end when it is asked to
                self._freezer.thaw()
        # Not SIGKILL: podman killed in the middle of its work leaves broken layers and stuck processes.
        self._process.terminate()
        self._is_over.set()

    async def wait_until_dead(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._program_pidfd, self._is_over.set)
        try:
            await self._is_over.wait()
        finally:
            loop.remove_reader(self._program_pidfd)
        self.seconds = time.monotonic() - self._start_time
        await asyncio.to_thread(self.kill_and_wait)

    def kill_and_wait(self) -> None:
        # A caller that cannot await may come while a thread does this, or while another asks for the state.
        with self._lock:
            if self._is_removed:
                return
            self._end_program()
            # After success no state is needed: a container can be removed without force only when it has ended.
            self.succeeded = self._process.returncode == 0 and self._engine.remove_if_ended(self._name)
            if not self.succeeded:
                self.state = self._engine.state(self._name)
                self._engine.remove(self._name)
            self._is_removed = True

    def close(self) -> None:
        os.close(self._program_pidfd)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _end_program(self) -> None:
        for push in (self._process.terminate, lambda: self._engine.remove(self._name), self._process.kill):
            push()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_EXIT_SECONDS)
                return
        self._process.wait()

    def _first_process(self) -> int | None:
        """Find the container's first process: its pid on this host, 0 if not visible, None if not known yet."""
        state = self._engine.state(self._name)
        if state is None or not state.first_pid:
            return None
        try:
            status = Path(f"/proc/{state.first_pid}/status").read_text(encoding="ascii", errors="replace")
        except OSError:
            return 0
        # An engine in a virtual machine has pids of its own; on this host the pid is another process.
        numbers = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
        return state.first_pid if len(numbers) > 1 and numbers[-1] == "1" else 0


def _start(setup: ContainerSetup, launch: Launch) -> _RunningContainer:
    name = fresh_name()
    command = [setup.engine.program, *run_options(setup, launch, name, _mount_points())]
    channel = launch.channel
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if channel is None else channel,
            stdout=subprocess.PIPE if channel is None else channel,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=engine_environment(launch.env),
            cwd="/",
            # loopty itself handles a Ctrl-C in the terminal.
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"cannot start {command[0]}: {error.strerror}") from error
    return _RunningContainer(process, name, setup, launch)


def _gaps(engine: ContainerEngine) -> list[Gap]:
    calls = "system calls are filtered by the engine's own profile, which allows more than loopty's"
    missing = [Gap(Protection.CALLS, calls if engine.seccomp else "this engine filters no system calls")]
    if "pids" not in engine.controllers and not engine.counts_processes:
        missing.append(Gap(Protection.FORKS, f"processes are not bounded ({_NO_CONTROLLER})"))
    if "memory" not in engine.controllers:
        # The watcher sees processes and file systems; the engine's profile allows calls that need neither.
        words = f"memory behind memfd_create or shmget is not counted ({_NO_CONTROLLER})"
        missing.append(Gap(Protection.MEMORY, words))
    return missing


def _trial_user(engine: ContainerEngine) -> tuple[int, int]:
    # Under a rootless daemon, root inside is the user outside.
    if engine.kind is EngineKind.DOCKER and engine.rootless:
        return (0, 0)
    return trial_owner() or (os.geteuid(), os.getegid())


def _mount_points() -> tuple[Path, ...]:
    lines = Path("/proc/thread-self/mountinfo").read_bytes().splitlines()
    # The kernel writes blanks and backslashes as octal numbers.
    return tuple(Path(os.fsdecode(line.split()[4].decode("unicode_escape").encode("latin-1"))) for line in lines)


def _first_bytes(stderr: Path) -> bytes:
    with stderr.open("rb") as file:
        return file.read(_MESSAGE_BYTES)


def make_sandbox(spec: SandboxSpec) -> Container:
    return Container(spec.engine, spec.image, spec.gpus)


# The watcher reads a line when all is well, and the end of its input when loopty is gone, for any reason. It looks
# several times, because an engine's program that outlives loopty may be about to start a container.
_WATCH = """
read -r _ && exit
for pause in 0 1 5 20; do
    sleep $pause
    names=$("$1" ps --all --filter "name=^$2-" --format '{{.Names}}')
    [ -z "$names" ] || "$1" rm --force --volumes $names
done
"""


def remove_abandoned(engine: ContainerEngine) -> None:
    """Remove the containers of loopty processes that are gone."""
    abandoned = [name for name in engine.container_names(f"{common_prefix()}-") if is_abandoned(name)]
    if abandoned:
        # Their owner is gone; a failure here concerns no trial.
        with contextlib.suppress(SandboxError):
            engine.remove(*abandoned)


def start_watcher(engine: ContainerEngine) -> Callable[[], None]:
    """Start a watcher that removes this process's containers when it is killed; returns how to stop it."""
    try:
        watcher = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "watch", engine.program, prefix_of(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=engine_environment(),
            cwd="/",
            # A Ctrl-C in the terminal must not kill the watcher together with loopty.
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"cannot start /bin/sh: {error.strerror}") from error
    owner = os.getpid()

    def stop_watcher() -> None:
        # A forked child inherits this function, but must not stop its parent's watcher.
        if os.getpid() == owner:
            with contextlib.suppress(BrokenPipeError):
                watcher.communicate(b"\n")

    return stop_watcher
