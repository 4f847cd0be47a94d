"""A server that speaks PostgreSQL's protocol, and answers each query with whatever bytes a test likes."""

import contextlib
import socket
import struct
from collections.abc import Callable, Iterator

from .raw_server import threaded_server

TEXT, WHOLE, REAL, BYTES = 25, 20, 701, 17
"""The types of columns."""
LOGGED_IN, CLEARTEXT = bytes(4), struct.pack("!I", 3)
"""What a server says about the login: that it is over, or that it wants the password as it is."""
_SSL = struct.pack("!I", 80877103)
_SETTINGS = {"server_version": "15.1", "default_transaction_read_only": "off", "in_hot_standby": "off"}


def message(kind: bytes, content: bytes = b"") -> bytes:
    return kind + struct.pack("!I", len(content) + 4) + content


def result(types: tuple[int, ...], *rows: tuple[bytes | None, ...]) -> bytes:
    """These rows, as a server sends them."""
    columns = b"".join(b"c\0" + struct.pack("!IHIhih", 0, 0, kind, -1, -1, 0) for kind in types)
    parts = [message(b"T", struct.pack("!H", len(types)) + columns)]
    for row in rows:
        cells = [struct.pack("!i", -1 if cell is None else len(cell)) + (cell or b"") for cell in row]
        parts.append(message(b"D", struct.pack("!H", len(row)) + b"".join(cells)))
    return b"".join(parts) + message(b"C", b"SELECT 1\0")


def error(words: bytes) -> bytes:
    return message(b"E", b"SERROR\0C42P01\0M" + words + b"\0\0")


@contextlib.contextmanager
def postgres_talker(answer: Callable[[str], bytes], login: bytes = LOGGED_IN) -> Iterator[str]:
    """The URL of a ledger there."""

    def serve(connection: socket.socket) -> None:
        with contextlib.suppress(OSError, struct.error), connection, connection.makefile("rb") as stream:

            def content() -> bytes:
                return stream.read(struct.unpack("!I", stream.read(4))[0] - 4)

            if content() == _SSL:
                connection.sendall(b"N")
                content()
            settings = b"".join(message(b"S", f"{name}\0{value}\0".encode()) for name, value in _SETTINGS.items())
            if login != LOGGED_IN:
                connection.sendall(message(b"R", login))
                if stream.read(1):
                    answer(content().decode())
            connection.sendall(message(b"R", LOGGED_IN) + settings + message(b"Z", b"I"))
            query = b""
            while kind := stream.read(1):
                found = content()
                if kind == b"P":
                    query = found.split(b"\0")[1]
                if kind in b"EQ":
                    connection.sendall(answer((query if kind == b"E" else found[:-1]).decode()))
                replies = {b"P": message(b"1"), b"B": message(b"2"), b"S": message(b"Z", b"I")}
                connection.sendall(replies.get(kind, message(b"Z", b"I") if kind == b"Q" else b""))

    with threaded_server(serve) as port:
        yield f"postgresql://me:word@127.0.0.1:{port}/d?sslmode=disable"
