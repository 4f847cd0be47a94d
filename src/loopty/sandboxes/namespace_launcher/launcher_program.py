"""The launcher: it starts the first process of each trial, and ends with loopty."""

from __future__ import annotations

import _signal
import _socket
import gc
import os
import select

from loopty.sandboxes.namespace_launcher.command_line import CommandLine
from loopty.sandboxes.namespace_launcher.launch_order import (
    COPY_SOURCES,
    FAILED,
    TITLE,
    WITH_NETWORK,
    WITHOUT_NETWORK,
    LauncherOrder,
    read_launcher_order,
    read_source_order,
    receive_descriptors,
    receive_message,
    send_descriptors,
    send_message,
)
from loopty.sandboxes.namespace_launcher.namespace_calls import (
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWUSER,
    NAMESPACES,
    filter_calls,
    forbid_new_privileges,
    fork_into,
)
from loopty.sandboxes.namespace_launcher.root_files import SharedRoot, clone_source
from loopty.sandboxes.namespace_launcher.trial_process import TrialProcess, watch_children, write_identity
from loopty.sandboxes.raw_calls import PR_SET_DUMPABLE, prctl, unshare, use_token

_STARTED = b"%d"
_STOP_SIGNALS = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)
_MANY = 4096
_NAMESPACES_BY_MESSAGE = {WITH_NETWORK: NAMESPACES, WITHOUT_NETWORK: NAMESPACES | CLONE_NEWNET, COPY_SOURCES: 0}


def main(order_file: int, connection_number: int) -> None:
    """Start trials until loopty closes the connection."""
    connection = _socket.socket(fileno=connection_number)
    # A service manager that stops all processes of loopty stops loopty, too, and then the connection closes.
    for number in _STOP_SIGNALS:
        _signal.signal(number, _signal.SIG_IGN)
    try:
        order = read_launcher_order(order_file)
        # Every trial can read the command line of its first process.
        CommandLine().replace(TITLE, TITLE)
        own_pid = int(os.readlink("/proc/self"))  # noqa: PTH115 - see below
        _enter_namespaces(order)
        root = SharedRoot(order.system)
        _filter_own_calls(order)
    except OSError as error:
        words = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
        connection.send(FAILED + os.fsencode(f"{words}"))
        return
    # Memory that is not touched again is not copied for each trial.
    gc.disable()
    gc.freeze()
    # Trials inherit the handler: setting one takes Python longer than starting a command.
    _signal.signal(_signal.SIGCHLD, _ignore)
    _serve(order, root, own_pid, connection)


def _serve(order: LauncherOrder, root: SharedRoot, own_pid: int, connection: _socket.socket) -> None:
    deaths = watch_children()
    events = select.poll()
    events.register(connection, select.POLLIN)
    events.register(deaths, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in events.poll()]
        if deaths in ready:
            os.read(deaths, _MANY)
            _reap()
        if connection.fileno() not in ready:
            continue
        message, descriptors = receive_message(connection, 1)
        if not message:
            return
        trial = _socket.socket(fileno=descriptors[0])
        try:
            pid, pidfd = fork_into(_NAMESPACES_BY_MESSAGE[message])
        except OSError as error:
            trial.send(FAILED + f"cannot make namespaces: {error.strerror}".encode())
        else:
            if pid == 0:
                connection.close()
                if message == COPY_SOURCES:
                    _copy_sources(trial)
                TrialProcess(order, root, own_pid, trial).run()
            if message != COPY_SOURCES:
                # Nobody listens any more when loopty has died.
                try:  # noqa: SIM105 - contextlib would double what this process imports
                    send_message(trial, _STARTED % pid, [pidfd])
                except OSError:
                    pass
            os.close(pidfd)
        trial.close()


def _copy_sources(connection: _socket.socket) -> None:
    """Send copies of the trees at paths of the host, for a trial that this launcher does not start; then end."""
    try:
        if descriptors := receive_descriptors(connection):
            paths = read_source_order(descriptors[0]).paths
            send_descriptors(connection, [clone_source(path) for path in paths])
    except OSError as error:
        connection.send(FAILED + os.fsencode(f"{error.filename}: {error.strerror}"))
    finally:
        os._exit(0)


def _enter_namespaces(order: LauncherOrder) -> None:
    """Become a user with rights only over namespaces of its own."""
    if order.owner is not None:
        uid, gid = order.owner
        os.setgroups(())
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    uid, gid = os.geteuid(), os.getegid()
    forbid_new_privileges()
    unshare(CLONE_NEWUSER | CLONE_NEWNS)
    prctl(PR_SET_DUMPABLE, 1)
    # A terminal needs a user 0.
    write_identity(0, uid, 0, gid)
    prctl(PR_SET_DUMPABLE, 0)


def _filter_own_calls(order: LauncherOrder) -> None:
    """Set the filter of all trials once, because the kernel takes milliseconds to translate one."""
    if order.call_filter is not None:
        filter_calls(order.call_filter)
        use_token(order.token)


def _ignore(_number: int, _frame: object) -> None:
    """The death of a child only wakes the process up."""


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return
