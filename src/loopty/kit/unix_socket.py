"""A socket that loopty listens at and a sandbox shows: whoever sees it may connect to it."""

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
    """A listening socket that does not block, and where it is."""

    socket: socket.socket
    path: Path


@contextlib.contextmanager
def listen(folder: Path, kind: socket.SocketKind, backlog: int) -> Iterator[ListeningSocket]:
    """Listen in a folder, which is made; the socket is gone afterwards."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    # Where a back end shows more than its mounts, a name that cannot be guessed is as good as hidden.
    place = folder / secrets.token_hex(16)
    with contextlib.ExitStack() as resources:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        resources.callback(os.close, opened)
        listener = resources.enter_context(socket.socket(socket.AF_UNIX, kind))
        # By way of its directory, because the path of a socket may have 107 bytes.
        listener.bind(f"/proc/self/fd/{opened}/{place.name}")
        resources.callback(place.unlink, missing_ok=True)
        place.chmod(0o666)
        listener.listen(backlog)
        listener.setblocking(False)
        yield ListeningSocket(listener, place)
