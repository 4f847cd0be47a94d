"""A socket that loopty listens on and a sandbox shows: every process that sees it may connect."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ListeningSocket:
    """A non-blocking listening socket and its path."""

    socket: socket.socket
    path: Path


@contextlib.contextmanager
def listen(folder: Path, kind: socket.SocketKind, backlog: int) -> Iterator[ListeningSocket]:
    """Listen on a new socket in this folder, which is created; the socket is gone afterwards."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    # Some back ends show more than their mounts; there, a name that cannot be guessed is as good as hidden.
    path = folder / secrets.token_hex(16)
    with contextlib.ExitStack() as resources:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        resources.callback(os.close, descriptor)
        listener = resources.enter_context(socket.socket(socket.AF_UNIX, kind))
        # Through the descriptor of its directory, because the path of a socket may have 107 bytes at most.
        listener.bind(f"/proc/self/fd/{descriptor}/{path.name}")
        resources.callback(path.unlink, missing_ok=True)
        path.chmod(0o666)
        listener.listen(backlog)
        listener.setblocking(False)
        yield ListeningSocket(listener, path)
