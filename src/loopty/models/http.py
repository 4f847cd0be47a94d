"""The connection to a server: nothing is followed, unpacked, kept open, or read without end."""

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
    """An answer that is not read on."""

    def __init__(self, reason: str, *, transient: bool) -> None:
        super().__init__(reason)
        self.transient = transient


@asynccontextmanager
async def close_answers() -> AsyncIterator[None]:
    """At the end, no answer to a request made inside is open: not every client closes a stream that it left."""
    answers: list[Any] = []
    token = _ANSWERS.set(answers)
    try:
        yield
    finally:
        _ANSWERS.reset(token)
        for answer in answers:
            await answer.aclose()


def http_client(library: ModuleType, limit_bytes: int, timeout_seconds: float) -> Any:
    """A client of httpx2, or of the older httpx, that reads at most so many bytes of an answer.

    Requests are made inside of `answers_closed`. No connection is kept after an answer, so that nothing is open
    between two requests and nobody has to close the client.
    """

    class BoundedStream(library.AsyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, source: Any) -> None:
            self._source = source

        async def __aiter__(self) -> AsyncIterator[bytes]:
            taken = 0
            # Closed here: what a generator leaves to the event loop is closed too late, and loudly.
            async with aclosing(aiter(self._source)) as pieces:
                async for piece in pieces:
                    taken += len(piece)
                    if taken > limit_bytes:
                        raise UnacceptableAnswer(
                            f"the answer is longer than {limit_bytes:,} bytes", transient=True
                        )
                    yield piece

        async def aclose(self) -> None:
            await self._source.aclose()

    async def check(response: Any) -> None:
        if response.has_redirect_location:
            raise UnacceptableAnswer(
                f"{response.status_code}: the server points elsewhere, and redirects are not followed: "
                "set `url` to where the model is served",
                transient=False,
            )
        # A few packed bytes can hold any number of plain ones, and it is the plain ones that fill the memory.
        if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
            raise UnacceptableAnswer("the server packed its answer without being asked to", transient=True)
        response.stream = BoundedStream(response.stream)
        _ANSWERS.get().append(response)

    return library.AsyncClient(
        verify=_ssl_context(library),
        headers={"Accept-Encoding": "identity"},
        # The deadline of the whole request comes first; this one only ends what the deadline left behind.
        timeout=library.Timeout(timeout_seconds + 1, connect=_CONNECT_SECONDS),
        limits=library.Limits(max_keepalive_connections=0),
        follow_redirects=False,
        event_hooks={"response": [check]},
    )


@cache
def _ssl_context(library: ModuleType) -> Any:
    """The certificates that are trusted: reading them takes longer than all else about a client."""
    return library.create_ssl_context()
