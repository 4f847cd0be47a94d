"""An HTTP client that bounds answers and follows nothing, and its errors as faults: the reason, whether to retry,
the possible cost.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from functools import cache
from http import HTTPStatus
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from loopty.domain.model import ModelFault, ModelSpec, Usage
from loopty.kit.foreign_text import one_line, strip_hidden
from loopty.models.keys import key_location, without_key

_CONNECT_SECONDS = 10.0
_ANSWERS: ContextVar[list[Any]] = ContextVar("answers")
EXPECTS_STREAM = ContextVar("expects_stream", default=False)
"""Whether the request asks for a stream."""


class UnacceptableAnswer(Exception):  # noqa: N818
    """An answer that loopty refuses to read any further."""

    def __init__(self, reason: str, *, transient: bool) -> None:
        super().__init__(reason)
        self.transient = transient


class NoStream(UnacceptableAnswer):
    """The server answers a request for a stream with one JSON object."""

    def __init__(self) -> None:
        super().__init__("the server does not stream", transient=True)


def is_without_stream(error: Exception) -> bool:
    """Say whether the server answered in one piece where a stream was asked for."""
    return any(isinstance(cause, NoStream) for cause in _causes(error))


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
    """Make a client of httpx2, or of the older httpx, that reads at most `limit_bytes` of an answer.

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
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if EXPECTS_STREAM.get() and response.is_success and kind == "application/json":
            _ANSWERS.get().append(response)
            raise NoStream
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
    """Load the trusted certificates once: reading them is the slowest part of making a client."""
    return library.create_ssl_context()


KEY_NEEDED = "the server asks for a key (name the variable that holds it in `key_env`)"
_READ_CHARACTERS, _SHOWN_CHARACTERS = 10_000, 200
"""Characters of a server's message that are read, and that are shown."""
_TRANSIENT = (
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.CONFLICT,
    HTTPStatus.TOO_EARLY,
    HTTPStatus.TOO_MANY_REQUESTS,
)


def is_transient(status: int) -> bool:
    """Say whether a request that fails with this status may succeed later."""
    return status in _TRANSIENT or status >= HTTPStatus.INTERNAL_SERVER_ERROR


class BrokenReply(Exception):  # noqa: N818
    """A reply that began well but cannot be used."""


def fault_of(error: Exception, spec: ModelSpec, key: str | None, usage: Usage) -> ModelFault:
    """Return the fault behind the client's error; `usage` is the cost of the request if the server read it."""
    from pydantic_ai.exceptions import ModelAPIError, ModelConnectionError, ModelHTTPError, UserError

    if unacceptable := next((cause for cause in _causes(error) if isinstance(cause, UnacceptableAnswer)), None):
        transient = unacceptable.transient
        return ModelFault(str(unacceptable), transient=transient, usage=usage if transient else None)
    if isinstance(error, BrokenReply):
        return ModelFault(str(error), transient=True, usage=usage)
    if isinstance(error, TimeoutError):
        return ModelFault(f"no whole reply within {spec.timeout_seconds:g} s", transient=True, usage=usage)
    message = _error_message(error, key)
    if isinstance(error, ModelHTTPError):
        status = error.status_code
        transient, meaning = _explanation(error, status, spec, key)
        return ModelFault(
            f"{status}: {meaning}{message and f': {message}'}",
            transient=transient,
            retry_after_seconds=error.retry_after,
            usage=usage if error.in_stream else None,
        )
    if isinstance(error, ModelConnectionError):
        unsent = error.phase in ("connect", "pool")
        # Without a name and password, which may precede the host.
        server = urlsplit(spec.url).netloc.rpartition("@")[2] or spec.provider
        meaning = f"no connection to {server}" if unsent else "the connection broke"
        reason = f"{meaning}: {_connection_problem(error, key)}"
        return ModelFault(reason, transient=True, usage=None if unsent else usage)
    if isinstance(error, UserError):
        return ModelFault(f"the request cannot be sent: {message}", transient=False)
    after = error.retry_after if isinstance(error, ModelAPIError) else None
    return ModelFault(
        f"the answer makes no sense: {message}", transient=True, retry_after_seconds=after, usage=usage
    )


def _explanation(error: Exception, status: int, spec: ModelSpec, key: str | None) -> tuple[bool, str]:
    """Say whether a retry may help, and what the error means for the user."""
    from pydantic_ai import exceptions as library

    match error:
        case library.ModelQuotaExceededError():
            return False, "the account's quota or credit is used up (top it up)"
        case library.ModelAuthenticationError() if key is None:
            return False, KEY_NEEDED
        case library.ModelAuthenticationError():
            return False, f"the key in {key_location(spec)} was refused"
        case library.ModelContextWindowExceededError():
            return False, "the prompt is too long for the model (set `context_tokens` to the model's limit)"
        case library.ModelNotFoundError():
            return False, not_found_reason(spec)
        case library.ModelRateLimitError():
            return True, "too many requests"
        case library.ModelUnavailableError():
            return True, "the model is overloaded or down"
    failed = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return is_transient(status), "the server failed" if failed else "the request was refused"


def not_found_reason(spec: ModelSpec, context: str = "") -> str:
    """Say that a server does not know the model or the path; `context` says which `model` and `url`."""
    unversioned = spec.url and spec.provider == "openai" and "/v1" not in spec.url
    hint = "; a `url` usually ends in /v1" if unversioned else ""
    return f"the server has no model '{spec.model}' (check `model` and `url`{context}{hint})"


def server_message(body: object, key: str | None) -> str:
    """Find the message in the body of an error: one short line without control characters or the key."""
    return _safe_line(_message(body), key)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and its causes: each client wraps errors of the layers below in its own way."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _error_message(error: Exception, key: str | None) -> str:
    """Return the server's message, else the client's, as one short line without control characters or key."""
    text = _message(getattr(error, "body", None)) or str(error) or type(error).__name__
    return _safe_line(text, key)


def _connection_problem(error: Exception, key: str | None) -> str:
    """Say why there is no connection, and what to check if that is known."""
    causes = [*_causes(error)]
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return "nothing listens there; is the server running?"
    if any(isinstance(cause, ssl.SSLError) and cause.reason == "WRONG_VERSION_NUMBER" for cause in causes):
        return "it does not speak https; write http:// in `url`"
    return _root_cause(error, key)


def _root_cause(error: Exception, key: str | None) -> str:
    """Find the system's own message, which says more than what the clients make of it."""
    return _safe_line(
        next((text for cause in [*_causes(error)][::-1] if (text := str(cause))), type(error).__name__), key
    )


def _safe_line(text: str, key: str | None) -> str:
    text = " ".join(strip_hidden(without_key(text, key)[:_READ_CHARACTERS]).split())
    return one_line(without_key(text, key), _SHOWN_CHARACTERS)


def _message(body: object) -> str:
    """Find the message in the body of an error, in any of the usual shapes."""
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        return _message(inner.get("message", "") if isinstance(inner, Mapping) else inner)
    return body if isinstance(body, str) else ""
