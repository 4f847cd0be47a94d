"""Calls a tool through the resident process. Imports next to nothing, because each agent starts one of these."""

import _socket
import os
import sys

from loopty.resident.client import peer_of
from loopty.resident.meeting_place import MeetingPlace, find_git_dir
from loopty.resident.request import ACCEPTED, TOOL, VerbRequest
from loopty.resident.surroundings import installation

_PATIENCE_SECONDS = 5.0
_CHUNK = 1 << 16


class ToolCall:
    """A call that the resident process has accepted; its reply comes through `connection`."""

    def __init__(self, connection: _socket.socket) -> None:
        self.connection = connection
        self._parts: list[bytes] = []

    def fileno(self) -> int:
        return self.connection.fileno()

    def read(self) -> bytes | None:
        """Read what has come: the reply when it is complete, else None. An empty reply: its process was killed."""
        try:
            part = self.connection.recv(_CHUNK)
        except OSError:
            part = b""
        if part:
            self._parts.append(part)
            return None
        self.connection.close()
        return b"".join(self._parts)


def send_call(folder: str, call: bytes) -> ToolCall | None:
    """Hand a call to the resident process of the repository around a folder; None where nobody accepts it."""
    git_dir = find_git_dir(folder)
    place = MeetingPlace(git_dir) if git_dir else None
    if place is None or not place.is_private():
        return None
    umask = os.umask(0o077)
    os.umask(umask)
    names = [os.fsencode(folder), call]
    request = VerbRequest(TOOL, os.fsencode(place.git_dir), installation(), umask, names)
    connection = None
    try:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)  # refused in some sandboxes
        connection.settimeout(_PATIENCE_SECONDS)
        connection.connect(place.socket)
        if peer_of(connection) == os.getuid():
            connection.sendall(request.to_bytes())
            if connection.recv(1) == ACCEPTED:
                connection.settimeout(None)
                return ToolCall(connection)
    except OSError:
        pass
    if connection:
        connection.close()
    return None


def start_own_process(folder: str) -> tuple[int, int, int]:
    """Start a process that answers one call by itself: its number, where to write the call and read the reply."""
    call, theirs = os.pipe()
    ours, reply = os.pipe()
    files = [
        (os.POSIX_SPAWN_DUP2, call, 0),
        (os.POSIX_SPAWN_DUP2, reply, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    # With -P: nothing in the user's directory may stand in for a module of ours.
    command = [sys.executable, "-P", "-m", "loopty.cli.main", "tool", "--call", folder]
    environment = {**os.environ, "LOOPTY_RESIDENT": "0"}
    try:
        process = os.posix_spawn(sys.executable, command, environment, file_actions=files)
    finally:
        os.close(call)
        os.close(reply)
    return process, theirs, ours
