"""Processes of the resident one that have done their work and wait for more of the same kind.

A forked process pays for what it touches first: pages that it copies, patterns that it compiles, plans that it
makes. One that stays has paid. It serves only work that it cannot tell from its last: calls of tools, whose
environment is the resident process's, and verbs that are called often, from clients with an equal environment.
"""

from __future__ import annotations

import contextlib
import functools
import selectors
import socket

from loopty.kit.readiness import is_readable
from loopty.resident.request import LENGTH_BYTES, TOOL, VERB, VerbRequest

_VERBS = frozenset((b"new", b"run", b"drop", b"status", b"tree", b"best", b"show", b"diff"))
_MOST_AT_REST = 4
_PEEK_BYTES = 1 << 16
_PEEK_SECONDS = 0.05
_RESTS, _CONNECTION = b".", b"c"


def work_kind(request: VerbRequest) -> bytes | None:
    """What is equal for all work that one process may do in turn; None for work after which it ends."""
    if request.kind == TOOL:
        return TOOL
    if request.kind == VERB and request.args and request.args[0] in _VERBS:
        return b"\0".join((VERB, *request.variables))
    return None


def peek_kind(connection: socket.socket) -> bytes | None:
    """The kind of the work that a client asks for, which stays to be read; None where it does not say at once."""
    try:
        if not is_readable(connection.fileno(), _PEEK_SECONDS):
            return None
        raw = connection.recv(_PEEK_BYTES, socket.MSG_PEEK)
        if len(raw) != LENGTH_BYTES + int.from_bytes(raw[:LENGTH_BYTES], "big"):
            return None
        return work_kind(VerbRequest.from_bytes(raw[LENGTH_BYTES:]))
    except (OSError, ValueError):
        return None


def next_connection(control: socket.socket) -> socket.socket | None:
    """In a process that has done its work: the connection of the next client; None where it is to end."""
    try:
        control.sendall(_RESTS)
        message, files, _, _ = socket.recv_fds(control, 1, 1)
    except OSError:
        return None
    return socket.socket(fileno=files[0]) if message == _CONNECTION and files else None


class KeptProcess:
    """The resident process's view of one of its processes."""

    def __init__(self, number: int, control: socket.socket, kind: bytes | None) -> None:
        self.number, self.control, self.kind = number, control, kind

    def says_it_rests(self) -> bool:
        """Whether it has just said that its work is done; False where it has ended."""
        with contextlib.suppress(OSError):
            return self.control.recv(1, socket.MSG_DONTWAIT) == _RESTS
        return False


class KeptProcesses:
    """The processes that work or wait for work."""

    def __init__(self) -> None:
        self._all: dict[int, KeptProcess] = {}
        self._at_rest: list[KeptProcess] = []
        """Those that wait, longest first."""

    @functools.cached_property
    def selector(self) -> selectors.BaseSelector:
        """Tells when a process says something; made at its first use, in the process that uses it."""
        return selectors.DefaultSelector()

    @property
    def numbers(self) -> list[int]:
        return list(self._all)

    def add(self, number: int, control: socket.socket, kind: bytes | None) -> None:
        """Add a process that works."""
        self._all[number] = process = KeptProcess(number, control, kind)
        self.selector.register(control, selectors.EVENT_READ, process)

    def hand_over(self, kind: bytes | None, connection: socket.socket) -> int | None:
        """Give the connection to a process that waits for this kind of work: its number; None without one."""
        for process in [one for one in reversed(self._at_rest) if one.kind == kind and kind is not None]:
            self._at_rest.remove(process)
            with contextlib.suppress(OSError):  # it was killed
                socket.send_fds(process.control, [_CONNECTION], [connection.fileno()])
                return process.number
        return None

    def rest(self, process: KeptProcess) -> None:
        """Let a process wait that has done its work; of many, the one that has waited longest ends."""
        self._at_rest.append(process)
        if len(self._at_rest) > _MOST_AT_REST:
            self.let_go(self._at_rest.pop(0))

    def forget(self, number: int) -> None:
        """Forget a process that has ended."""
        process = self._all.pop(number)
        if process in self._at_rest:
            self._at_rest.remove(process)
        self.let_go(process)

    def let_go(self, process: KeptProcess) -> None:
        """Close our end, at which it sees that it is to end."""
        if process.control.fileno() >= 0:
            self.selector.unregister(process.control)
            process.control.close()
