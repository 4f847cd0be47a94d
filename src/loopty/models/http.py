"""An HTTP client that follows no redirects, unpacks nothing, keeps no connection open, and bounds answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from functools import cache
from types import ModuleType
from typing import Any

_CONNECT_SECONDS = 10.0
_ANSWERS: ContextVar[list[Any]] = ContextVar("answers")


class UnacceptableAnswer(Exception):  # noqa: N818
    """An answer that loopty refuses to read any further."""

    def __init__(self, reason: str, *, transient: bool) -> None:
        super().__init__(reason)
        self.transient = transient


@asynccontextmanager
async def close_answers() -> AsyncIterator[None]:
    """Close all answers to requests made inside the block: not every client closes a stream that it abandons."""
    answers: list[Any] = []
    token = _ANSWERS.set(answers)
    try:
        yield
    finally:
        _ANSWERS.reset(token)
        for answer in answers:
            await answer.aclose()


def http_client(library: ModuleType, limit_bytes: int, timeout_seconds: float) -> Any:
    """A client of httpx2, or of the older httpx, that reads at most `limit_bytes` of an answer.

    Make requests inside a `close_answers` block. No connection outlasts its answer, so that nothing is open
    between two requests and nobody has to close the client.
    """

    class BoundedStream(library.AsyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, source: Any) -> None:
            self._source = source

        async def __aiter__(self) -> AsyncIterator[bytes]:
            received = 0
            # Close it here: the event loop would close an abandoned generator too late, and with a warning.
            async with aclosing(aiter(self._source)) as pieces:
                async for piece in pieces:
                    received += len(piece)
                    if received > limit_bytes:
                        raise UnacceptableAnswer(
                            f"the answer is longer than {limit_bytes:,} bytes", transient=True
                        )
                    yield piece

        async def aclose(self) -> None:
            await self._source.aclose()

    async def check(response: Any) -> None:
        if response.has_redirect_location:
            raise UnacceptableAnswer(
                f"{response.status_code}: the server redirects, and loopty follows no redirects: "
                "set `url` to the address that serves the model",
                transient=False,
            )
        # A few compressed bytes can unpack to any number of bytes, and those would fill the memory.
        if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
            raise UnacceptableAnswer(
                "the server compressed its answer although loopty did not ask for that", transient=True
            )
        response.stream = BoundedStream(response.stream)
        _ANSWERS.get().append(response)

    return library.AsyncClient(
        verify=_ssl_context(library),
        headers={"Accept-Encoding": "identity"},
        # The deadline of the whole request comes first; this timeout only ends what the deadline leaves behind.
        timeout=library.Timeout(timeout_seconds + 1, connect=_CONNECT_SECONDS),
        limits=library.Limits(max_keepalive_connections=0),
        follow_redirects=False,
        event_hooks={"response": [check]},
    )


@cache
def _ssl_context(library: ModuleType) -> Any:
    """The trusted certificates, read once: reading them is the slowest part of making a client."""
    return library.create_ssl_context()
