"""A warm process: it has imported the packages of a benchmark, runs no file of the repository, and each trial
starts as a copy of it.

It reads nothing that a trial has written. It lives in a sandbox like that
of a trial; each copy gets namespaces of its own inside that.
"""

# Without pathlib: a command finds loaded what this process has loaded. For Python 3.9 and newer.
# ruff: noqa: PTH115, PTH208

from __future__ import annotations

import _signal
import _socket
import gc
import os
import sys

from loopty.sandboxes.namespaces.calls import (
    CLONE_NEWNET,
    CLONE_NEWUSER,
    NAMESPACES,
    CommandLine,
    filter_calls,
    fork_into,
)
from loopty.sandboxes.namespaces.launch_order import (
    FAILED,
    READY,
    TITLE,
    CommandOrder,
    LauncherOrder,
    TrialOrder,
    read_launcher_order,
    read_warm_order,
    receive_descriptors,
)
from loopty.sandboxes.namespaces.root_files import copied_root
from loopty.sandboxes.namespaces.trial_process import (
    TrialProcess,
    handle_deaths,
    report_failure,
    report_start,
    start_requests,
    write_identity,
)
from loopty.sandboxes.namespaces.warm.command_copy import CommandCopy
from loopty.sandboxes.namespaces.warm.imports import WarmImports
from loopty.sandboxes.raw_calls import PR_SET_DUMPABLE, prctl

TYPE_CHECKING = False


if TYPE_CHECKING:
    from typing import NoReturn


_MANY = 4096


def main(known_modules: set[str], program_folder: str) -> None:
    """Import what the order names and start copies until loopty closes the connection; returns in no process.

    `known_modules` are those of an interpreter that has just started.
    """
    channel = _socket.socket(fileno=os.dup(0))
    # The channel was the standard input and output: nothing that is imported may read or write it.
    with open(os.devnull, "r+b") as nothing:  # noqa: PTH123 - see the other modules
        os.dup2(nothing.fileno(), 0)
        os.dup2(nothing.fileno(), 1)
    launcher_order, warm_order = receive_descriptors(channel)
    order = read_warm_order(warm_order)
    copies = Copies(launcher_order)
    imports = WarmImports(known_modules, order)
    sys.path.remove(program_folder)
    if problem := imports.load():
        channel.send(FAILED + problem.encode(errors="replace")[:_MANY])
        os._exit(0)
    imports.finish()
    command = CommandCopy(imports, order)
    # Memory that is not touched again is not copied for each trial.
    gc.collect()
    gc.freeze()
    command.become(copies.serve(channel, command))


# The first process of a trial is a copy, too, which forks once more.


_FIRST_OTHER = 3
_STARTED = b"0"
"""Loopty asks the pidfd for the pid: this process knows another one, that of its own pid namespace."""


class Copies:
    """Starts copies of this process, each in namespaces of its own."""

    def __init__(self, launcher_order: int) -> None:
        self._order = read_launcher_order(launcher_order)

    def serve(self, channel: _socket.socket, command: CommandCopy) -> CommandOrder:
        """Say that this process is ready, and start copies until the channel is closed; returns in copies only."""
        channel.send(READY)
        try:
            _serve(self._order, channel, command)
        except CopyStarted as copy:
            return copy.order


class CopyStarted(BaseException):
    """Leaves everything that the warm process does: this process is the command of a trial now."""

    def __init__(self, order: CommandOrder) -> None:
        super().__init__()
        self.order = order


class TrialCopy(TrialProcess):
    """The first process of a trial, in the user namespace that was made for it."""

    def __init__(
        self,
        shared: LauncherOrder,
        parent: int,
        connection: _socket.socket,
        command_line: CommandLine,
        command: CommandCopy,
    ) -> None:
        super().__init__(shared, copied_root(shared.system), parent, connection)
        self._command_line = command_line
        self._command = command
        self._identity = shared.uid, shared.gid
        self._copy_filter = shared.copy_filter
        self._socket = connection

    def run(self) -> None:
        """Carry out the order that comes over the connection; raises CopyStarted in the copy, never returns."""
        is_command = False
        try:
            uid, gid = self._identity
            # A terminal needs a user 0.
            write_identity(0, uid, 0, gid)
            prctl(PR_SET_DUMPABLE, 0)
            self._command_line.replace(TITLE, TITLE)
            self.carry_out()
        except CopyStarted:
            is_command = True
            raise
        finally:
            if not is_command:
                os._exit(1)

    def start_command(self, order: TrialOrder, outputs: list[int]) -> int:
        """Fork the copy that becomes the command."""
        if (call_filter := self._copy_filter) is not None:
            filter_calls(call_filter)
        # Not a bare system call: the C library and packages put themselves in order after this one.
        if (pid := os.fork()) == 0:
            self._socket.detach()
            _signal.set_wakeup_fd(-1)
            _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
            _take_descriptors(outputs)
            prctl(PR_SET_DUMPABLE, 1)
            self._command_line.replace(self._command.line, self._command.name)
            raise CopyStarted(CommandOrder(order.argv, order.env, order.unset))
        return pid


def _serve(order: LauncherOrder, channel: _socket.socket, command: CommandCopy) -> NoReturn:
    command_line = CommandLine()
    own_pid = int(os.readlink("/proc/self"))
    handle_deaths()
    for _, trial in start_requests(channel):
        try:
            pid, pidfd = fork_into(NAMESPACES | CLONE_NEWNET | CLONE_NEWUSER)
        except OSError as error:
            report_failure(trial, error)
        else:
            if pid == 0:
                channel.detach()
                # Only the copy reads its order, so no other copy can find it in the memory of this process.
                TrialCopy(order, own_pid, trial, command_line, command).run()
            report_start(trial, _STARTED, pidfd)
            os.close(pidfd)
        trial.close()
    os._exit(0)


def _take_descriptors(outputs: list[int]) -> None:
    first, second = outputs
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (first, 1), (second, 2)):
        os.dup2(source, target)
    for name in os.listdir("/proc/self/fd"):
        if int(name) >= _FIRST_OTHER:
            try:
                os.close(int(name))
            except OSError:
                continue  # the descriptor of the list itself
