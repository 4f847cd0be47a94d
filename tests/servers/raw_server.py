"""A hostile server: it answers every request with the same bytes, once or again and again."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator


@contextlib.contextmanager
def raw_server(answer: bytes, again_seconds: float = 0.0) -> Iterator[tuple[int, list[bytes]]]:
    """Its port on loopback, and the beginnings of the requests that it got."""
    got: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            got.append(connection.recv(1 << 16))
            connection.sendall(answer)
            while again_seconds:
                time.sleep(again_seconds)
                connection.sendall(answer)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1], got
        listener.shutdown(socket.SHUT_RDWR)
