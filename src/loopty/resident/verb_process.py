"""The process of a verb, forked from the resident one: becomes what the client would have been.

It stays after work that is short and frequent, and waits for more of the same kind: see `kept_processes.py`.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import os
import signal
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NoReturn

from loopty.kit.quick_exit import exit_status
from loopty.kit.readiness import is_readable
from loopty.kit.work_end import end_work
from loopty.resident.client import peer_of
from loopty.resident.kept_processes import next_connection, work_kind
from loopty.resident.mailbox import Mailbox
from loopty.resident.meeting_place import find_git_dir
from loopty.resident.request import (
    ACCEPTED,
    DESCRIPTORS,
    EXIT,
    GO,
    LARGEST_BYTES,
    LENGTH_BYTES,
    STOP,
    TOOL,
    VERB,
    VerbRequest,
)
from loopty.resident.surroundings import installation

_PATIENCE_SECONDS = 5.0
_MOST_PIECES_OF_WORK = 1000
"""Then a process ends, with whatever it may have gathered."""
REFUSED, ASKED_TO_STOP = 70, 71
"""Exit statuses of this process where it ran no verb; a verb reports its own to the client."""


class ResidentServices:
    """What the resident process does for its clients."""

    def __init__(
        self,
        run_verb: Callable[[], None],
        answer_call: Callable[[Path, bytes, Callable[[bytes], None]], None],
        prepare: Callable[[], Collection[int]],
    ) -> None:
        """`run_verb` runs the verb of the command line, `answer_call` a call of a tool in a directory.

        The latter gets the call, and a function that sends the reply; it may work on after that. `prepare` makes
        what verbs share, before each, and returns the descriptors of it.
        """
        self.run_verb, self.answer_call, self.prepare = run_verb, answer_call, prepare
        self.variables = [name + b"=" + value for name, value in os.environb.items()]
        """The environment of tool calls: that of the process which started this one."""


def serve_connections(
    connection: socket.socket,
    git_dir: bytes,
    surroundings: bytes,
    services: ResidentServices,
    shared: Collection[int],
    control: socket.socket,
) -> NoReturn:
    """Read the request and do what it asks for, then wait at `control` for more. Never returns.

    Refuses by closing the connection. `shared` are the descriptors that verbs share.
    """
    try:
        _close_others(connection.fileno(), control.fileno(), *shared)
        os.setsid()
        weakref.finalize(services, lambda: None)  # the first of its kind registers an exit function
        exit_functions = atexit._ncallbacks()
        for _ in range(_MOST_PIECES_OF_WORK):
            stays = _serve(connection, git_dir, surroundings, services)
            connection.close()
            # Whatever is to be done at the exit, or goes on in a thread, may belong to this work.
            if not stays or atexit._ncallbacks() != exit_functions or threading.active_count() > 1:
                break
            _rest()
            following = next_connection(control)
            if following is None:
                break
            connection = following
        atexit._run_exitfuncs()
    finally:
        os._exit(0)


def _serve(connection: socket.socket, git_dir: bytes, surroundings: bytes, services: ResidentServices) -> bool:
    """Serve one connection; whether the process may serve others after it."""
    try:
        _reset_signals()
        connection.settimeout(_PATIENCE_SECONDS)
        request, files = _read_request(connection)
        if request.git_dir != git_dir:
            os._exit(REFUSED)
        if request.kind == STOP:
            os._exit(ASKED_TO_STOP)
        if request.kind == TOOL:
            return _answer(connection, request, services) == 0
        if request.surroundings != surroundings or request.kind != VERB or len(files) != DESCRIPTORS:
            os._exit(REFUSED)
        handle = os.pidfd_open(os.getpid())
        socket.send_fds(connection, [ACCEPTED], [handle])
        os.close(handle)
        if connection.recv(1) != GO:
            os._exit(REFUSED)
    except (OSError, ValueError):
        os._exit(REFUSED)
    _become(request, files, connection)
    may_stay = work_kind(request) is not None
    status = exit_status(services.run_verb, end_work) if may_stay else exit_status(services.run_verb)
    _report(connection, status)
    return may_stay and status == 0


def _answer(connection: socket.socket, request: VerbRequest, services: ResidentServices) -> int:
    """Answer the call of a tool. Its client may go away meanwhile: what was handed over goes on."""
    if request.surroundings != installation() or len(request.args) != 2:
        os._exit(REFUSED)
    folder = os.fsdecode(request.args[0])
    found = find_git_dir(folder)
    if found is None or os.fsencode(found) != request.git_dir:
        os._exit(REFUSED)
    os.umask(request.umask)
    _take_environment(services.variables)
    os.chdir(folder)
    connection.settimeout(_PATIENCE_SECONDS)
    connection.sendall(ACCEPTED)

    def send(reply: bytes) -> None:
        with connection, contextlib.suppress(OSError):
            connection.sendall(reply)
            connection.shutdown(socket.SHUT_RDWR)

    return exit_status(lambda: services.answer_call(Path(folder), request.args[1], send), end_work)


def _rest() -> None:
    """Let go of what the last client gave, and of its work."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    _reset_signals()
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.close(nothing)
    gc.collect()


def serve_letter(mailbox: Mailbox, name: str, services: ResidentServices, shared: Collection[int]) -> NoReturn:
    """Answer a call that came as a file. Never returns."""
    _reset_signals()
    _close_others(*shared)
    os.setsid()
    _take_environment(services.variables)
    os.chdir(mailbox.top)
    call = mailbox.take(name)

    def send(reply: bytes) -> None:
        mailbox.reply(name, reply)

    os._exit(exit_status(lambda: services.answer_call(mailbox.top, call, send)))


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _take_environment(variables: list[bytes]) -> None:
    """Make these variables the environment of this process."""
    VerbRequest(TOOL, b"", b"", variables=variables).apply_environment()


def _close_others(*kept: int) -> None:
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in kept:
            with contextlib.suppress(OSError):
                os.close(number)


def _read_request(connection: socket.socket) -> tuple[VerbRequest, list[int]]:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    first, files, _, _ = socket.recv_fds(connection, LENGTH_BYTES, DESCRIPTORS)
    head = first + _read(connection, LENGTH_BYTES - len(first), deadline)
    size = int.from_bytes(head, "big")
    if size > LARGEST_BYTES or peer_of(connection) != os.getuid():
        raise ValueError("no request")
    return VerbRequest.from_bytes(_read(connection, size, deadline)), files


def _read(connection: socket.socket, size: int, deadline: float) -> bytes:
    parts = []
    while size > 0:
        part = connection.recv(min(size, 1 << 20))
        if not part or time.monotonic() > deadline:
            raise ValueError("no request")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _become(request: VerbRequest, files: list[int], connection: socket.socket) -> None:
    """Take over the client's streams, directory, environment and umask, and end when the client does."""
    os.fchdir(files[3])
    for source, target in zip(files[:3], range(3), strict=True):
        os.dup2(source, target)
    for number in files:
        os.close(number)
    os.umask(request.umask)
    request.apply_environment()
    time.tzset()
    sys.argv = ["loopty", *map(os.fsdecode, request.args)]
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        former = getattr(sys, f"__{name}__")
        is_unbuffered = name == "stderr" or os.isatty(number)
        buffering = 1 if is_unbuffered else -1
        stream = open(number, mode, buffering, former.encoding, former.errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    # A client that dies ends its verb as Ctrl-C would: the kernel sends the signal when the connection breaks.
    connection.settimeout(None)
    fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(connection, fcntl.F_SETSIG, signal.SIGINT)
    fcntl.fcntl(connection, fcntl.F_SETFL, fcntl.fcntl(connection, fcntl.F_GETFL) | os.O_ASYNC)
    if is_readable(connection.fileno(), 0):
        os.kill(os.getpid(), signal.SIGINT)


def _report(connection: socket.socket, status: int) -> None:
    """Tell the client how the verb ended; from here on its end is no signal."""
    with contextlib.suppress(OSError):
        fcntl.fcntl(connection, fcntl.F_SETFL, fcntl.fcntl(connection, fcntl.F_GETFL) & ~os.O_ASYNC)
        connection.sendall(EXIT + b" %d\n" % status)
