"""What loopty asks a launcher or a warm process for, one new process after the other."""

# `_socket` and little else: this process's memory is copied for every trial. For Python 3.9 and newer.
from __future__ import annotations

import _signal
import _socket
import os
import select

from loopty.sandboxes.namespace_launcher.launch_order import FAILED, receive_message, send_message
from loopty.sandboxes.namespace_launcher.trial_process import watch_children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_MANY = 4096


def handle_deaths() -> None:
    """Set the handler that `start_requests` needs."""
    _signal.signal(_signal.SIGCHLD, _ignore)


def start_requests(channel: _socket.socket) -> Iterator[tuple[bytes, _socket.socket]]:
    """Each request with the connection of the process to start, until loopty closes the channel.

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
            _reap()
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
    """The death of a child only wakes the process up."""


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return
