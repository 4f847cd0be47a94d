"""Run a command with a port on loopback where ordinary clients reach the trial's model.

    python3 -I -S -B model_port.py COMMAND ARGUMENT...

The port leads to the socket in LOOPTY_MODEL_SOCKET, and the environment variables that clients read name the port;
LOOPTY_MODEL_PORT, where it is set, is its number.
The command replaces this process, so its streams, its signals and its exit code are its own; a process beside it
forwards, and ends with the sandbox.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys

_BUFFER_BYTES = 1 << 16
_MOST_CONNECTIONS = 64
_BACKLOG = 1024
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


def main(argv: list[str]) -> None:
    try:
        listener = socket.create_server(
            ("127.0.0.1", int(os.environ.get("LOOPTY_MODEL_PORT", 0))), backlog=_BACKLOG
        )
    except OSError as error:
        notice = f"loopty: no loopback here ({error.strerror}): reach the model through LOOPTY_MODEL_SOCKET\n"
        os.write(2, notice.encode())
    else:
        _fork_server(listener, os.environ["LOOPTY_MODEL_SOCKET"])
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.close()
        os.environ["OPENAI_BASE_URL"] = os.environ["OPENAI_API_BASE"] = f"{address}/v1"
        os.environ["ANTHROPIC_BASE_URL"] = os.environ["GOOGLE_GEMINI_BASE_URL"] = address
    # Python ignores these signals, and the command would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode(errors="replace"))
        os._exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE)


def _fork_server(listener: socket.socket, path: str) -> None:
    """Forward in a process that is not a child of the command, which may wait for all its children to end."""
    if (child := os.fork()) != 0:
        os.waitpid(child, 0)
        return
    try:
        # In a session of its own, so that the command may kill its own process group.
        os.setsid()
        if os.fork() == 0:
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in range(3):
                os.dup2(nothing, descriptor)
            _Forwarder(listener, path).run()
    finally:
        os._exit(0)


class _Side:
    """One side of a forwarded connection, and the bytes that still have to be sent to it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.unsent = bytearray()
        self.ended = False
        """It has sent everything that it will send."""
        self.closed = False
        """Nothing more is sent to it."""
        self.peer = self


class _Forwarder:
    """Moves bytes between the clients and the model's socket, for all connections in one thread."""

    def __init__(self, listener: socket.socket, path: str) -> None:
        self._listener = listener
        self._path = path
        self._sides: dict[int, _Side] = {}
        self._watched: set[_Side] = set()
        self._poll = select.poll()

    def run(self) -> None:
        self._listener.setblocking(False)
        while True:
            if len(self._sides) < 2 * _MOST_CONNECTIONS:
                self._poll.register(self._listener, select.POLLIN)
            for descriptor, _ in self._poll.poll():
                if descriptor == self._listener.fileno():
                    self._poll.unregister(self._listener)
                    self._accept_client()
                elif descriptor in self._sides:
                    self._move(self._sides[descriptor])

    def _accept_client(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return
        model = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # Never blocking: the other connections must be served meanwhile.
        model.setblocking(False)
        client.setblocking(False)
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            model.connect(self._path)
        except OSError:
            client.close()
            model.close()
            return
        client_side, model_side = _Side(client), _Side(model)
        client_side.peer, model_side.peer = model_side, client_side
        for side in (client_side, model_side):
            self._sides[side.connection.fileno()] = side
            self._watch(side)

    def _move(self, side: _Side) -> None:
        """Send the bytes that wait for this side, and receive what it sends to its peer."""
        peer = side.peer
        try:
            _send(side)
            _receive(side)
            for source, target in ((side, peer), (peer, side)):
                if source.ended and not target.unsent and not target.closed:
                    target.closed = True
                    target.connection.shutdown(socket.SHUT_WR)
        except OSError:
            side.closed = peer.closed = True
        for each in (side, peer):
            if side.closed and peer.closed:
                self._forget(each)
            else:
                self._watch(each)

    def _watch(self, side: _Side) -> None:
        events = select.POLLOUT if side.unsent else 0
        if not side.ended and len(side.peer.unsent) < _BUFFER_BYTES:
            events |= select.POLLIN
        if events:
            self._poll.register(side.connection, events)
            self._watched.add(side)
        elif side in self._watched:
            # A registered connection without events would still report its hang-up, again and again.
            self._poll.unregister(side.connection)
            self._watched.remove(side)

    def _forget(self, side: _Side) -> None:
        if side in self._watched:
            self._poll.unregister(side.connection)
            self._watched.remove(side)
        del self._sides[side.connection.fileno()]
        side.connection.close()


def _send(side: _Side) -> None:
    if side.unsent:
        try:  # noqa: SIM105 - contextlib costs a fifth of the start
            del side.unsent[: side.connection.send(side.unsent)]
        except BlockingIOError:
            pass


def _receive(side: _Side) -> None:
    if not side.ended and len(side.peer.unsent) < _BUFFER_BYTES:
        try:
            chunk = side.connection.recv(_BUFFER_BYTES)
        except BlockingIOError:
            return
        side.peer.unsent += chunk
        side.ended = not chunk


if __name__ == "__main__":
    main(sys.argv[1:])
