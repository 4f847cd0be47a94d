"""A server on loopback with a thread for each connection, and a hostile one that answers with the same bytes."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def threaded_server(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Its port; each connection goes to `serve`."""

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def raw_server(answer: bytes, again_seconds: float = 0.0) -> Iterator[tuple[int, list[bytes]]]:
    """The port of one that sends this answer, once or again and again, and the beginnings of its requests."""
    got: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            got.append(connection.recv(1 << 16))
            connection.sendall(answer)
            while again_seconds:
                time.sleep(again_seconds)
                connection.sendall(answer)

    with threaded_server(serve) as port:
        yield port, got
