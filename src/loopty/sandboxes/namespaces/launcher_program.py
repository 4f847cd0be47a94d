"""The launcher: it starts the first process of each trial, and ends with loopty."""

from __future__ import annotations

import _signal
import _socket
import gc
import os

from loopty.sandboxes.namespaces.calls import (
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWUSER,
    NAMESPACES,
    CommandLine,
    filter_calls,
    forbid_new_privileges,
    fork_into,
)
from loopty.sandboxes.namespaces.launch_order import (
    COPY_SOURCES,
    FAILED,
    TITLE,
    WITH_NETWORK,
    WITHOUT_NETWORK,
    LauncherOrder,
    read_launcher_order,
    read_source_order,
    receive_descriptors,
    send_descriptors,
)
from loopty.sandboxes.namespaces.root_files import SharedRoot, clone_source
from loopty.sandboxes.namespaces.trial_process import (
    TrialProcess,
    handle_deaths,
    report_failure,
    report_start,
    start_requests,
    write_identity,
)
from loopty.sandboxes.raw_calls import PR_SET_DUMPABLE, prctl, unshare, use_token

_STARTED = b"%d"
_STOP_SIGNALS = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)
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
    handle_deaths()
    _serve(order, root, own_pid, connection)
    os._exit(0)  # at once: as long as it lives, it holds on to the file systems of its trials


def _serve(order: LauncherOrder, root: SharedRoot, own_pid: int, connection: _socket.socket) -> None:
    for message, trial in start_requests(connection):
        try:
            pid, pidfd = fork_into(_NAMESPACES_BY_MESSAGE[message])
        except OSError as error:
            report_failure(trial, error)
        else:
            if pid == 0:
                connection.close()
                if message == COPY_SOURCES:
                    _copy_sources(trial)
                TrialProcess(order, root, own_pid, trial).run()
            if message != COPY_SOURCES:
                report_start(trial, _STARTED % pid, pidfd)
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
    """Set the filter of all trials once, because the kernel takes 1 to 10 ms to install one."""
    if order.call_filter is not None:
        filter_calls(order.call_filter)
        # The seven calls that the launcher itself needs pass only with this token, which no command can read.
        use_token(order.token)
