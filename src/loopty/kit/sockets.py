"""Sockets that loopty listens on and a sandbox shows, and whether a descriptor can be read."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
from collections.abc import Iterator
from math import ceil
from pathlib import Path

from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFolder


def is_readable(descriptor: int, seconds: float | None) -> bool:
    """Say whether there is something to read, or its other end or process is gone, in time; None: wait."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if seconds is None else ceil(seconds * 1_000)))


class ListeningSocket(Record):
    """A non-blocking listening socket and its path."""

    socket: socket.socket
    path: Path


@contextlib.contextmanager
def listen(folder: SafeFolder, kind: socket.SocketKind, backlog: int) -> Iterator[ListeningSocket]:
    """Listen on a new socket in this folder, which is created; the socket is gone afterwards."""
    # Some back ends show more than their mounts; there, a name that cannot be guessed is as good as hidden.
    name = secrets.token_hex(16)
    with contextlib.ExitStack() as resources:
        descriptor = resources.enter_context(folder.handle(make=True))
        os.fchmod(descriptor, 0o755)
        listener = resources.enter_context(socket.socket(socket.AF_UNIX, kind))
        # Through the descriptor of its directory, because the path of a socket may have 107 bytes at most.
        listener.bind(f"/proc/self/fd/{descriptor}/{name}")
        resources.callback(folder.remove, name)
        os.chmod(name, 0o666, dir_fd=descriptor)
        listener.listen(backlog)
        listener.setblocking(False)
        yield ListeningSocket(listener, folder.path_for_programs() / name)
