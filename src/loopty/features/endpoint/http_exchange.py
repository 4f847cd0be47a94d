"""One HTTP request of bounded size on a connection, and its answer, which may be streamed.

Each connection serves one request: a trial uses every connection that it opens, and no idle ones need counting.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from loopty.kit.records import Record

if TYPE_CHECKING:
    import h11

LARGEST_BODY = 8 << 20
ALL_BODIES = 128 << 20
"""The limit on all requests in progress of one trial."""
NO_RETRY = {"x-should-retry": "false"}
"""Keeps the clients of OpenAI and Anthropic from retrying."""
_LARGEST_HEAD = 1 << 16
_READ_BYTES = 1 << 16
_MAX_PARTS = 20_000
"""Chunks of a body; an ordinary client sends a few thousand at the limit of bytes."""
_PARTS_IN_A_ROW = 100
_LINGER_SECONDS = 2.0
UNREAD_SECONDS = 60.0
"""How long an answer may wait for its reader, in total."""


class Request(Record):
    """An HTTP request; names of headers are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


class RequestRefused(Exception):  # noqa: N818 - it is an answer, not an error of ours
    """A request to answer with an error, in the shape that the clients of all providers can read."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind

    @property
    def body(self) -> bytes:
        error = {"type": self.kind, "code": self.kind, "status": self.kind, "message": str(self), "param": None}
        return json.dumps({"type": "error", "error": error}).encode()


class ClientGone(Exception):  # noqa: N818
    """The client has disconnected."""


class RequestBytes:
    """The bytes of all requests in progress."""

    def __init__(self) -> None:
        self.total = 0


class Exchange:
    """A connection with one request and one answer."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        all_requests: RequestBytes,
        largest_body: int = LARGEST_BODY,
    ) -> None:
        import h11

        self._reader = reader
        self._writer = writer
        self._all_requests = all_requests
        self._largest_body = largest_body
        self._own_bytes = 0
        self._seconds_left = UNREAD_SECONDS
        # An ASGI server per trial would bring signal handlers, a life cycle and logging, for seven paths.
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_LARGEST_HEAD)
        self._head_only = False
        """Whether the answer has a head only."""

    async def request(self) -> Request:
        """Read the request. Raises RequestRefused if it is malformed or too large, ClientGone if none comes."""
        import h11

        head: h11.Request | None = None
        body = bytearray()
        parts = 0
        try:
            while not isinstance(event := await self._event(), h11.EndOfMessage):
                if isinstance(event, h11.Request):
                    head = event
                elif isinstance(event, h11.Data):
                    body += event.data
                    self._count_bytes(len(event.data))
                    parts += 1
                    await self._let_others_run(parts)
                else:
                    raise ClientGone
        except h11.RemoteProtocolError as error:
            raise RequestRefused(400, "invalid_request_error", f"this is not an HTTP request: {error}") from None
        assert head is not None
        self._head_only = head.method == b"HEAD"
        path, _, query = head.target.decode("latin-1").partition("?")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        return Request(head.method.decode("latin-1"), path, query, headers, bytes(body))

    def close(self, at_once: bool) -> None:
        """Close the connection; `at_once` when the client is gone and will not read the rest."""
        self._all_requests.total -= self._own_bytes
        if at_once:
            self._writer.transport.abort()
        self._writer.close()

    def _count_bytes(self, count: int) -> None:
        self._own_bytes += count
        self._all_requests.total += count
        if self._own_bytes > self._largest_body:
            largest = self._largest_body
            raise RequestRefused(413, "request_too_large", f"the request has more than {largest} bytes")
        if self._all_requests.total > ALL_BODIES:
            raise RequestRefused(
                413, "request_too_large", f"the requests in progress have more than {ALL_BODIES} bytes"
            )

    async def _let_others_run(self, parts: int) -> None:
        """Let others run: tiny chunks cost far more time than bytes, and a reader with data would never yield."""
        if parts > _MAX_PARTS:
            raise RequestRefused(413, "request_too_large", f"the request has more than {_MAX_PARTS} chunks")
        if parts % _PARTS_IN_A_ROW == 0:
            await asyncio.sleep(0)

    async def wait_for_disconnect(self) -> None:
        """Return when the client has disconnected; ignores all further input."""
        with contextlib.suppress(ConnectionError):
            while await self._reader.read(_READ_BYTES):
                pass

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        import h11

        all_headers = [*headers.items(), ("connection", "close")]
        await self._write(h11.Response(status_code=status, headers=all_headers))

    async def send(self, data: bytes) -> None:
        import h11

        if not self._head_only:
            await self._write(h11.Data(data=data))

    async def end(self) -> None:
        import h11

        await self._write(h11.EndOfMessage())

    async def answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a whole answer."""
        await self.begin(status, {**headers, "content-length": str(len(body))})
        await self.send(body)
        await self.end()

    async def refuse(self, refusal: RequestRefused) -> None:
        await self.answer(refusal.status, {"content-type": "application/json", **NO_RETRY}, refusal.body)

    async def linger(self) -> None:
        """Read the rest of a request that was answered before its end: a reset would discard the answer."""
        with contextlib.suppress(OSError, TimeoutError):
            self._writer.write_eof()
            async with asyncio.timeout(_LINGER_SECONDS):
                await self.wait_for_disconnect()

    async def _event(self) -> Any:
        import h11

        while (event := self._connection.next_event()) is h11.NEED_DATA:
            if self._connection.they_are_waiting_for_100_continue:
                await self._write(h11.InformationalResponse(status_code=100, headers=[]))
            try:
                self._connection.receive_data(await self._reader.read(_READ_BYTES))
            except ConnectionError:
                raise ClientGone from None
        return event

    async def _write(self, event: Any) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            self._writer.write(self._connection.send(event) or b"")
            if not self._writer.transport.get_write_buffer_size() and not self._writer.is_closing():
                return  # the kernel took everything: a timer would double the cost of a streamed event
            # A client that does not read must not look like a provider that does not answer.
            async with asyncio.timeout(self._seconds_left):
                await self._writer.drain()
        except (ConnectionError, TimeoutError):
            raise ClientGone from None
        self._seconds_left -= clock() - began
