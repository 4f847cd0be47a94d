"""A server on loopback that answers from a script, and misbehaves when the script says so.

    with ScriptedServer(answer({"ok": True}), refusal(429, "slow down", Retry_After="7"), hang) as server:
        ...                              # ask http://127.0.0.1:PORT, which is server.url
    server.requests[0].body              # what the client sent

Each request takes the next behaviour; when the script is over, the last one repeats. A behaviour is a function of
the connection: it may send any bytes at any time. Every connection carries one request.
"""

import json
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Request:
    """A request to the server. Names of headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


@dataclass(frozen=True)
class Connection:
    """The server's side of one request."""

    socket: socket.socket
    request: Request
    over: threading.Event
    """Set when the server is to end: waiting behaviours wait for this."""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def reset(self) -> None:
        """Reset the connection, whatever it is doing."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")


Behaviour = Callable[[Connection], None]


class ScriptedServer:
    """Serves one script. `asked` is set at the first request, `left` when a client left before the end."""

    def __init__(self, *script: Behaviour) -> None:
        self.requests: list[Request] = []
        self.asked = threading.Event()
        self.left = threading.Event()
        self._script = script
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        # Closing a socket does not wake a thread that waits on it; a last connection does.
        socket.create_connection(self._listener.getsockname()).close()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            if self._over.is_set():
                client.close()
                return
            thread = threading.Thread(target=self._serve, args=(client,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        client.settimeout(60)
        with client:
            try:
                request = _read(client)
                with self._lock:
                    behaviour = self._script[min(len(self.requests), len(self._script) - 1)]
                    self.requests.append(request)
                self.asked.set()
                behaviour(Connection(client, request, self._over))
            except OSError:
                self.left.set()


def answer(body: Any, status: int = 200, **headers: str) -> Behaviour:
    """An answer with a JSON body. `Retry_After="7"` is the header `Retry-After: 7`."""
    return raw_answer(json.dumps(body).encode(), status, "application/json", **headers)


def refusal(status: int, message: str, kind: str = "error", **headers: str) -> Behaviour:
    """An error in the shape that OpenAI and many others use."""
    return answer({"error": {"message": message, "type": kind, "code": kind}}, status, **headers)


def raw_answer(data: bytes, status: int = 200, content_type: str = "text/plain", **headers: str) -> Behaviour:
    """These bytes as a whole answer."""
    return lambda connection: connection.send(
        _head(status, content_type, {**headers, "Content-Length": str(len(data))}) + data
    )


def stream(events: Iterable[str | dict], *, whole: bool = True, reset: bool = False) -> Behaviour:
    """Server-sent events: texts unchanged, anything else as `data: JSON`.

    Not `whole`: the connection closes after the last event without an end, or with a reset.
    """
    pieces = [event if isinstance(event, str) else f"data: {json.dumps(event)}\n\n" for event in events]

    def behave(connection: Connection) -> None:
        connection.send(_head(200, "text/event-stream", {"Transfer-Encoding": "chunked"}))
        for piece in pieces:
            connection.send(_chunk(piece.encode()))
        if whole:
            connection.send(_chunk(b""))
        if reset:
            connection.reset()

    return behave


def unframed_stream(events: Iterable[str | dict]) -> Behaviour:
    """A stream that ends with its connection, so that an early end looks like the end."""
    pieces = [event if isinstance(event, str) else f"data: {json.dumps(event)}\n\n" for event in events]
    return lambda connection: connection.send(
        _head(200, "text/event-stream", {"Connection": "close"}) + "".join(pieces).encode()
    )


def stalled_stream(events: Iterable[str | dict]) -> Behaviour:
    """A stream that stalls after these events."""
    begin = stream(events, whole=False)

    def behave(connection: Connection) -> None:
        begin(connection)
        connection.over.wait()

    return behave


def endless_answer(first: bytes, repeated: bytes, content_type: str = "text/event-stream") -> Behaviour:
    """An answer that goes on until the client leaves."""

    def behave(connection: Connection) -> None:
        connection.send(_head(200, content_type, {"Connection": "close"}) + first)
        while not connection.over.is_set():
            connection.send(repeated * 64)

    return behave


def hang(connection: Connection) -> None:
    """Reads the request and never answers."""
    connection.over.wait()


def hang_up(connection: Connection) -> None:
    """Reads the request and resets the connection."""
    connection.reset()


def garbage(connection: Connection) -> None:
    """Something that is not HTTP at all."""
    connection.send(b"\x00\xff\x16\x03\x01 nonsense \r\n\r\n\x1b[31m")


def _head(status: int, content_type: str, headers: dict[str, str]) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([f"HTTP/1.1 {status} Said", f"Content-Type: {content_type}", *lines, "", ""]).encode()


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def _read(client: socket.socket) -> Request:
    head = b""
    while b"\r\n\r\n" not in head:
        head += _piece(client)
    head, raw = head.split(b"\r\n\r\n", 1)
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(raw) < int(headers.get("content-length", "0")):
        raw += _piece(client)
    method, path, _ = first.split(" ")
    return Request(method, path, headers, raw)


def _piece(client: socket.socket) -> bytes:
    if not (piece := client.recv(65536)):
        raise OSError("the client left before it had asked")
    return piece
