"""A warm process: it has imported the packages of a benchmark, and each trial starts as a copy of it.

It runs no file of the repository, and it reads nothing that a trial has written. It lives in a sandbox like that
of a trial; each copy gets namespaces of its own inside that.
"""

from __future__ import annotations

import _signal
import _socket
import gc
import os
import select
import sys

from loopty.sandboxes.namespace_launcher.command_copy import CommandCopy, CopyStarted, TrialCopy
from loopty.sandboxes.namespace_launcher.command_line import CommandLine
from loopty.sandboxes.namespace_launcher.launch_order import (
    FAILED,
    NO_LIBRARY,
    READY,
    CommandOrder,
    LauncherOrder,
    WarmOrder,
    read_launcher_order,
    read_warm_order,
    receive_descriptors,
    receive_message,
    send_message,
)
from loopty.sandboxes.namespace_launcher.namespace_calls import CLONE_NEWNET, CLONE_NEWUSER, NAMESPACES, fork_into
from loopty.sandboxes.namespace_launcher.trial_process import watch_children
from loopty.sandboxes.namespace_launcher.warm_imports import WarmImports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

_MANY = 4096
_STARTED = b"0"
"""Loopty asks the pidfd for the pid: this process knows another one, that of its own pid namespace."""


def main(known_modules: set[str], program_folder: str) -> None:
    """Import what the order names and start copies until loopty closes the connection; returns in no process.

    `known_modules` are those of an interpreter that has just started.
    """
    channel = _socket.socket(fileno=os.dup(0))
    # The channel was the standard input and output: nothing that is imported may read or write it.
    with open(os.devnull, "r+b") as nothing:  # noqa: PTH123 - see the other modules
        os.dup2(nothing.fileno(), 0)
        os.dup2(nothing.fileno(), 1)
    launcher_order, warm_order, *compiled = receive_descriptors(channel)
    order = read_warm_order(warm_order)
    imports = WarmImports(known_modules, order)
    sys.path.remove(program_folder)
    if problem := imports.load():
        channel.send(FAILED + problem.encode(errors="replace")[:_MANY])
        os._exit(0)
    start = _start_compiled if compiled else _start_in_python
    serve = start(channel, launcher_order, compiled)
    command = _settle(imports, order)
    command.become(serve(command))


def _start_compiled(
    channel: _socket.socket, launcher_order: int, compiled: list[int]
) -> Callable[[CommandCopy], CommandOrder]:
    try:
        from loopty.sandboxes.namespace_launcher.compiled_copies import CompiledCopies

        library, token, program = compiled
        copies = CompiledCopies(library)
    except (ImportError, OSError, AttributeError) as error:
        channel.send(NO_LIBRARY + str(error).encode(errors="replace")[:_MANY])
        os._exit(0)
    return lambda command: copies.serve(channel, launcher_order, token, program, command)


def _start_in_python(
    channel: _socket.socket, launcher_order: int, _compiled: list[int]
) -> Callable[[CommandCopy], CommandOrder]:
    order = read_launcher_order(launcher_order)

    def serve(command: CommandCopy) -> CommandOrder:
        channel.send(READY)
        try:
            _serve(order, channel, command)
        except CopyStarted as copy:
            return copy.order

    return serve


def _settle(imports: WarmImports, order: WarmOrder) -> CommandCopy:
    """Prepare what all copies share."""
    imports.finish()
    command = CommandCopy(imports, order)
    # Memory that is not touched again is not copied for each trial.
    gc.collect()
    gc.freeze()
    return command


def _serve(order: LauncherOrder, channel: _socket.socket, command: CommandCopy) -> NoReturn:
    command_line = CommandLine()
    own_pid = int(os.readlink("/proc/self"))  # noqa: PTH115
    _signal.signal(_signal.SIGCHLD, _ignore)
    deaths = watch_children()
    events = select.poll()
    events.register(channel, select.POLLIN)
    events.register(deaths, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in events.poll()]
        if deaths in ready:
            os.read(deaths, _MANY)
            _reap()
        if channel.fileno() not in ready:
            continue
        message, descriptors = receive_message(channel, 1)
        if not message:
            os._exit(0)
        trial = _socket.socket(fileno=descriptors[0])
        try:
            pid, pidfd = fork_into(NAMESPACES | CLONE_NEWNET | CLONE_NEWUSER)
        except OSError as error:
            trial.send(FAILED + f"cannot make namespaces: {error.strerror}".encode())
        else:
            if pid == 0:
                channel.detach()
                TrialCopy(order, own_pid, trial, command_line, command).run()
            # Nobody listens any more when loopty has died.
            try:  # noqa: SIM105 - a command finds loaded what this process imports
                send_message(trial, _STARTED, [pidfd])
            except OSError:
                pass
            os.close(pidfd)
        trial.close()


def _ignore(_number: int, _frame: object) -> None:
    """The death of a child only wakes the process up."""


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return
