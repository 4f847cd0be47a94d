"""loopty's side of a warm process: a sandboxed interpreter whose copies run commands; one for all that import the
same.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import weakref
from pathlib import Path

from loopty.domain.launch import Launch, Mount, WarmStart
from loopty.kit.process import trial_owner
from loopty.kit.records import replace
from loopty.kit.sockets import is_readable
from loopty.sandboxes.cgroup import Cgroup
from loopty.sandboxes.namespaces.launch_order import (
    FAILED,
    READY,
    TrialOrder,
    WarmOrder,
    dump_order,
    receive_message,
    send_descriptors,
    send_message,
)
from loopty.sandboxes.namespaces.launcher import Launcher, close_with, copy_trees, make_order

_IMPORT_SECONDS = 60.0
# The launcher forks within milliseconds, or is dead, or was stopped.
_START_SECONDS = 10.0
_END_SECONDS = 1.0
_MESSAGE_BYTES = 1 << 13
_START_TRIAL = b"+"
_PROGRAM_FOLDER = "/loopty-program"
_ROOM_FOR_COMMAND_LINE = 8192 * " "
_PACKAGE = Path(__file__).resolve().parents[3]
# For any Python 3: an old one says that it is too old, and does not fail at a word that it does not know.
_START = """
import sys
known = set(sys.modules)
if sys.version_info < (3, 9):
    import socket
    socket.socket(fileno=0).send(b"failed warm processes need Python 3.9 or newer")
    sys.exit()
sys.path.insert(1, sys.argv[1])
from loopty.sandboxes.namespaces.warm.program import main
main(known, sys.argv[1])
"""


class WarmRefusal(Exception):  # noqa: N818 - a finding, after which commands start by themselves
    """Why a warm process cannot run commands."""

    def __init__(self, reason: str, *, is_lasting: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_lasting = is_lasting
        """Whether a new process would end in the same way."""


class WarmProcess:
    """An interpreter that has imported the packages of a command. It ends with this object or process."""

    def __init__(self, launcher: Launcher, launch: Launch, warm: WarmStart) -> None:
        """Start it for the commands of a launch, by a launcher that nests.

        Raises WarmRefusal, or SandboxError for a mount.
        """
        with contextlib.ExitStack() as resources, contextlib.ExitStack() as handed_over:
            self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            handed_over.callback(theirs.close)
            groups = []
            if (cgroup := Cgroup.create(launch.bounds)) is not None:
                resources.callback(cgroup.remove)
                groups.append(close_with(cgroup.open_processes(), handed_over))
            own = _own_launch(launch, warm, theirs)
            trees = copy_trees(own.mounts, handed_over)
            order = make_order(own, len(groups), by_path=trial_owner() is None, nests=True)
            nothing = close_with(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), handed_over)
            connection = launcher.start_trial(network=False)
            # It dies when the connection is closed.
            first_process: list[int] = []
            resources.callback(_wait_until_dead, first_process)
            resources.callback(connection.close)
            # It ends by itself before that when it can, so that its time is counted as that of a child.
            resources.callback(is_readable, connection.fileno(), _END_SECONDS)
            resources.callback(self._channel.close)
            descriptors = [close_with(dump_order(order), handed_over), theirs.fileno(), nothing, *groups, *trees]
            with contextlib.suppress(ConnectionError):
                send_descriptors(connection, descriptors)
            handed_over.close()
            _receive_first_process(connection, first_process)
            self._variables = variables = {**order.env, "PWD": order.cwd}
            own_order = WarmOrder(
                interpreter=warm.python,
                arguments=warm.arguments,
                imports=warm.imports,
                names=tuple(warm.names),
                variables=variables,
            )
            self._send_orders(launcher, own_order)
            self._wait_for_imports()
            self._finalizer = weakref.finalize(self, _end, resources.pop_all(), os.getpid())

    @property
    def is_alive(self) -> bool:
        """Say whether it still waits for commands."""
        # It says nothing more, so what can be read is the end.
        return not is_readable(self._channel.fileno(), 0)

    def start_trial(self) -> socket.socket:
        """Start the first process of a trial and return the connection to it: at its end when this one is dead."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, contextlib.suppress(ConnectionError):
            send_message(self._channel, _START_TRIAL, [theirs.fileno()])
        return ours

    def set_variables(self, order: TrialOrder) -> None:
        """Leave only those variables in the order of a copy that are different from this process's."""
        wanted = {**order.env, "PWD": order.cwd}
        order.env = {name: value for name, value in wanted.items() if self._variables.get(name) != value}
        order.unset = tuple(name for name in self._variables if name not in wanted)

    def close(self) -> None:
        """End it, and every trial that it started."""
        self._finalizer()

    def _send_orders(self, launcher: Launcher, order: WarmOrder) -> None:
        with contextlib.ExitStack() as files:
            descriptors = [close_with(dump_order(part), files) for part in (launcher.order_for_copies, order)]
            with contextlib.suppress(ConnectionError):
                send_descriptors(self._channel, descriptors)

    def _wait_for_imports(self) -> None:
        if not is_readable(self._channel.fileno(), _IMPORT_SECONDS):
            raise WarmRefusal(f"the imports take longer than {_IMPORT_SECONDS:g} s", is_lasting=True)
        message = b""
        with contextlib.suppress(ConnectionError):
            message = self._channel.recv(_MESSAGE_BYTES)
        if message.startswith(FAILED):
            raise WarmRefusal(message.removeprefix(FAILED).decode(errors="replace"), is_lasting=True)
        if message != READY:
            raise WarmRefusal("the process that imports the packages ended too early", is_lasting=False)


def _own_launch(launch: Launch, warm: WarmStart, channel: socket.socket) -> Launch:
    """Make the launch of the warm process: it sees the packages, and nothing of a trial."""
    program = warm.python[0]
    is_relative = "/" in program and not program.startswith("/")
    return replace(
        launch,
        argv=(*warm.python, "-c", _START, _PROGRAM_FOLDER, _ROOM_FOR_COMMAND_LINE),
        # Nothing is at the folder of the command but what is mounted below it, perhaps the interpreter.
        cwd=launch.cwd if is_relative else "/",
        env=dict(warm.env),
        mounts=(*warm.mounts, Mount(_PACKAGE, f"{_PROGRAM_FOLDER}/loopty")),
        scratch=warm.folders,
        channel=channel.fileno(),
        on_start=None,
        warm=None,
    )


def _receive_first_process(connection: socket.socket, first_process: list[int]) -> None:
    """Add the pidfd of the sandbox's first process when the sandbox is ready. Raises WarmRefusal if it fails."""
    is_ready = False
    while not (first_process and is_ready):
        message, descriptors = b"", list[int]()
        with contextlib.suppress(ConnectionError):
            if is_readable(connection.fileno(), _START_SECONDS):
                message, descriptors = receive_message(connection, _MESSAGE_BYTES)
        if message.startswith(READY):
            is_ready = True
            for descriptor in descriptors:
                os.close(descriptor)
        elif message[:1].isdigit():
            first_process += descriptors
        else:
            reason = message.removeprefix(FAILED).decode(errors="replace")
            raise WarmRefusal(reason or "the sandbox around it ended too early", is_lasting=bool(reason))


def _wait_until_dead(process: list[int]) -> None:
    """Wait until the process of a pidfd is dead, whose connection is closed, and close the pidfd."""
    for descriptor in process:
        is_readable(descriptor, _START_SECONDS)
        os.close(descriptor)


def _end(resources: contextlib.ExitStack, owner: int) -> None:
    # A forked child inherits this finalizer, and must not wait for its parent's process.
    if os.getpid() == owner:
        resources.close()


_MAX_DEATHS = 3


class WarmPool:
    """Starts warm processes when they are needed. Any thread may use it."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._lock = threading.Lock()
        self._processes: dict[WarmStart, WarmProcess] = {}
        self._refusals: dict[WarmStart, WarmRefusal] = {}
        self._deaths: dict[WarmStart, int] = {}

    async def process_for(self, launch: Launch, warm: WarmStart) -> WarmProcess:
        """Find a process whose copies run commands that start like this. Raises WarmRefusal if none can."""
        process = self._processes.get(warm)
        if process is not None and process.is_alive:
            return process
        return await asyncio.to_thread(self._start, launch, warm)

    def refuse(self, warm: WarmStart, reason: str) -> WarmRefusal:
        """Start no more processes for such commands."""
        with self._lock:
            return self._refusals.setdefault(warm, WarmRefusal(reason, is_lasting=True))

    def close(self) -> None:
        """End all processes, and every trial that they started."""
        with self._lock:
            while self._processes:
                self._processes.popitem()[1].close()

    def _start(self, launch: Launch, warm: WarmStart) -> WarmProcess:
        with self._lock:
            process = self._processes.get(warm)
            if process is not None and process.is_alive:
                return process
            if warm in self._refusals:
                raise self._refusals[warm]
            if process is not None:
                del self._processes[warm]
                process.close()
                self._count_death(warm)
            try:
                self._processes[warm] = WarmProcess(self._launcher, launch, warm)
            except WarmRefusal as refusal:
                if refusal.is_lasting:
                    self._refusals[warm] = refusal
                else:
                    self._count_death(warm)
                raise
            return self._processes[warm]

    def _count_death(self, warm: WarmStart) -> None:
        self._deaths[warm] = self._deaths.get(warm, 0) + 1
        if self._deaths[warm] == _MAX_DEATHS:
            self._refusals[warm] = WarmRefusal(f"it was killed {_MAX_DEATHS} times", is_lasting=True)
