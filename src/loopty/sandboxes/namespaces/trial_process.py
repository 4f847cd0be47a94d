"""The first process of a trial: it makes the trial's root, gives up all rights, starts the command; and the
requests that start one.
"""

# Without pathlib: the launcher's memory is copied for every trial, so it imports little.
# `_socket` and little else: this process's memory is copied for every trial. For Python 3.9 and newer.
# ruff: noqa: PTH112, PTH118

from __future__ import annotations

import _signal
import _socket
import errno
import fcntl
import os
import resource
import select
import struct
import time

from loopty.sandboxes.namespaces.calls import CLONE_NEWCGROUP, CLONE_NEWUSER, drop_capabilities
from loopty.sandboxes.namespaces.launch_order import (
    ENDED,
    FAILED,
    GO,
    READY,
    LauncherOrder,
    TrialOrder,
    read_trial_order,
    receive_descriptors,
    receive_message,
    send_message,
)
from loopty.sandboxes.namespaces.root_files import TrialRoot
from loopty.sandboxes.raw_calls import PR_SET_DUMPABLE, PR_SET_PDEATHSIG, prctl, unshare

TYPE_CHECKING = False


if TYPE_CHECKING:
    from collections.abc import Iterator


_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
_MESSAGE_BYTES = 4096
_SHELL = "/bin/sh"
_DEFAULT_PATH = "/bin:/usr/bin"
_FIRST_OTHER = 3
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_INTERFACE = struct.Struct("16sh14x")


class TrialProcess:
    """Process 1 of a trial's pid namespace. When it ends, the kernel kills all other processes of the trial.

    It ends with the command, with the launcher (by a signal of the kernel), and with loopty, whose end of the
    connection is then closed. It cannot be traced or read by the trial.
    """

    def __init__(self, shared: LauncherOrder, root: TrialRoot, parent: int, connection: _socket.socket) -> None:
        """`parent`: the launcher's pid as the host's /proc shows it."""
        self._shared = shared
        self._root = root
        self._parent = parent
        self._connection = connection

    def run(self) -> None:
        """Carry out the order that comes over the connection; does not return."""
        try:
            self.carry_out()
        finally:
            os._exit(1)

    def carry_out(self) -> None:
        """Carry out the order, or say why that failed."""
        try:
            self._run()
        except OSError as error:
            words = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
            self._connection.send(FAILED + os.fsencode(f"{words}")[:_MESSAGE_BYTES])

    def _run(self) -> None:
        if not (descriptors := receive_descriptors(self._connection)):
            return
        order = read_trial_order(descriptors.pop(0))
        outputs = [descriptors.pop(0) for _ in range(2)]
        for _ in range(order.groups):
            _enter_group(descriptors.pop(0))
        # Now, so that the trial does not see the name of its group.
        unshare(CLONE_NEWCGROUP)
        host_processes = os.open(self._root.host_processes, os.O_PATH | os.O_CLOEXEC)
        memory = self._root.enter_trial_root(order, descriptors)
        _socket.sethostname(self._shared.host_name)
        if not order.network:
            _start_loopback()
        self._give_up_rights(order)
        self._bind_life(host_processes)
        os.close(host_processes)
        os.chdir(order.cwd)
        for name, value in order.limits:
            resource.setrlimit(name, (value, value))
        os.setsid()
        send_message(self._connection, READY + repr(time.monotonic()).encode(), memory)
        for descriptor in memory:
            os.close(descriptor)
        if order.waits and self._connection.recv(len(GO)) != GO:
            return
        code = self._run_command(order, outputs)
        if code is not None:
            self._connection.send(ENDED + b"%d" % code)

    def _give_up_rights(self, order: TrialOrder) -> None:
        """Enter a user namespace without any rights, in which only a warm process can make further ones."""
        unshare(CLONE_NEWUSER)
        # The kernel lets only its own user write these, which a process that cannot be read does not count as.
        prctl(PR_SET_DUMPABLE, 1)
        write_identity(self._shared.uid, 0, self._shared.gid, 0)
        prctl(PR_SET_DUMPABLE, 0)
        if not order.nests:
            _write("/proc/sys/user/max_user_namespaces", b"0")
        drop_capabilities()

    def _bind_life(self, host_processes: int) -> None:
        """End with the launcher, also when it has died by now."""
        prctl(PR_SET_PDEATHSIG, _signal.SIGKILL)
        # getppid() says 0 for every process outside the pid namespace.
        if parent_in(host_processes) != self._parent:
            os._exit(1)

    def _run_command(self, order: TrialOrder, outputs: list[int]) -> int | None:
        """Run the command and return its exit code, or None when loopty is gone."""
        deaths = watch_children()
        try:
            command = self.start_command(order, outputs)
        except FileNotFoundError:
            return _refuse(order, outputs[1], _NOT_FOUND)
        except OSError:
            return _refuse(order, outputs[1], _NOT_EXECUTABLE)
        for descriptor in set(outputs):
            os.close(descriptor)
        watch = select.poll()
        watch.register(self._connection, select.POLLIN)
        watch.register(deaths, select.POLLIN)
        while True:
            for descriptor, _ in watch.poll():
                if descriptor != deaths:
                    return None
            os.read(deaths, _MESSAGE_BYTES)
            if (code := _reap(command)) is not None:
                return code

    def start_command(self, order: TrialOrder, outputs: list[int]) -> int:
        """Start the command and return its pid."""
        return _spawn(order, outputs)


def watch_children() -> int:
    """Return a descriptor that can be read when a child has died; SIGCHLD must have a handler."""
    readable, writable = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    _signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    return readable


def write_identity(uid: int, outer_uid: int, gid: int, outer_gid: int) -> None:
    """Give this process, which is alone in a new user namespace, one user and one group there."""
    _write("/proc/self/setgroups", b"deny")
    _write("/proc/self/uid_map", b"%d %d 1" % (uid, outer_uid))
    _write("/proc/self/gid_map", b"%d %d 1" % (gid, outer_gid))


def parent_in(processes: int) -> int:
    """Return the pid of this process's parent, as an open /proc shows it."""
    descriptor = os.open("self/stat", os.O_RDONLY | os.O_CLOEXEC, dir_fd=processes)
    try:
        # The name in parentheses may contain anything; the state and the parent follow.
        return int(os.read(descriptor, _MESSAGE_BYTES).rpartition(b")")[2].split()[1])
    finally:
        os.close(descriptor)


def _enter_group(processes: int) -> None:
    """Enter the cgroup whose `cgroup.procs` is open; what this process starts enters it, too."""
    os.write(processes, b"0")
    os.close(processes)


def _start_loopback() -> None:
    any_socket = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)
    name, flags = _INTERFACE.unpack(fcntl.ioctl(any_socket.fileno(), _SIOCGIFFLAGS, _INTERFACE.pack(b"lo", 0)))
    fcntl.ioctl(any_socket.fileno(), _SIOCSIFFLAGS, _INTERFACE.pack(name, flags | _IFF_UP))
    any_socket.close()


def _spawn(order: TrialOrder, outputs: list[int]) -> int:
    """Start the command without copying this process, and return its pid."""
    first = (os.POSIX_SPAWN_DUP2, outputs[0], 0) if order.channel else (os.POSIX_SPAWN_OPEN, 0, "/dev/null", 0, 0)
    actions = (first, (os.POSIX_SPAWN_DUP2, outputs[0], 1), (os.POSIX_SPAWN_DUP2, outputs[1], 2))
    # Python or the launcher ignores these, and a program would inherit that.
    defaults = (_signal.SIGPIPE, _signal.SIGXFSZ, _signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)
    env = {**order.env, "PWD": order.cwd}
    path = _program_path(order.argv[0], order.env.get("PATH", _DEFAULT_PATH))
    try:
        return os.posix_spawn(path, order.argv, env, file_actions=actions, setsigdef=defaults)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        # A script without a first line that names its interpreter is the shell's.
        return os.posix_spawn(
            _SHELL, (_SHELL, path, *order.argv[1:]), env, file_actions=actions, setsigdef=defaults
        )


def _program_path(name: str, search_path: str) -> str:
    """Find the first executable file of this name on the search path, as execvp does."""
    if "/" in name:
        return name
    for folder in search_path.split(":"):
        path = os.path.join(folder or ".", name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    raise FileNotFoundError(name)


def _refuse(order: TrialOrder, stderr: int, code: int) -> int:
    reason = "it is not found" if code == _NOT_FOUND else "it cannot be executed"
    os.write(stderr, os.fsencode(f"cannot start {order.argv[0]}: {reason}\n"))
    return code


def _reap(command: int) -> int | None:
    """Reap every dead child; the exit code of the command when it is among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == command:
            code = os.waitstatus_to_exitcode(status)
            code = 128 - code if code < 0 else code


def _write(path: str, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(descriptor)


_MANY = 4096


def handle_deaths() -> None:
    """Set the handler that `start_requests` needs."""
    _signal.signal(_signal.SIGCHLD, _ignore)


def start_requests(channel: _socket.socket) -> Iterator[tuple[bytes, _socket.socket]]:
    """Yield each request with the connection of the process to start, until loopty closes the channel.

    Children that have ended are reaped meanwhile.
    """
    deaths = watch_children()
    events = select.poll()
    events.register(channel, select.POLLIN)
    events.register(deaths, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in events.poll()]
        if deaths in ready:
            os.read(deaths, _MANY)
            _reap_dead()
        if channel.fileno() not in ready:
            continue
        message, descriptors = receive_message(channel, 1)
        if not message:
            return
        yield message, _socket.socket(fileno=descriptors[0])


def report_start(trial: _socket.socket, message: bytes, pidfd: int) -> None:
    """Tell loopty of the process, unless loopty has died and nobody listens any more."""
    try:  # noqa: SIM105 - contextlib would double what this process imports
        send_message(trial, message, [pidfd])
    except OSError:
        pass


def report_failure(trial: _socket.socket, error: OSError) -> None:
    """Tell loopty why there is no process."""
    trial.send(FAILED + f"cannot make namespaces: {error.strerror}".encode())


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing: the death of a child only wakes the process up."""


def _reap_dead() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return
