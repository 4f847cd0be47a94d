"""Why a request gave no reply: whose fault it is, whether to ask again, and what it may have cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from urllib.parse import urlsplit

from loopty.domain.model import ModelFault, ModelSpec, Usage
from loopty.kit.fence import one_line
from loopty.kit.scrub import strip_hidden
from loopty.models.hiding import without_key
from loopty.models.http import UnacceptableAnswer
from loopty.models.keys import key_location

KEY_NEEDED = "the server asks for a key, name the variable that has it in `key_env`"
_LOOKED_AT, _LONGEST = 10_000, 200
"""How much of what a server said is looked at, and how much of it is told."""
_PASSING = (
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.CONFLICT,
    HTTPStatus.TOO_EARLY,
    HTTPStatus.TOO_MANY_REQUESTS,
)


def is_transient(status: int) -> bool:
    """Whether what a server answers with this status passes by itself."""
    return status in _PASSING or status >= HTTPStatus.INTERNAL_SERVER_ERROR


class BrokenReply(Exception):  # noqa: N818
    """A reply that began well and is no reply."""


def fault_of(error: Exception, stated: ModelSpec, key: str | None, usage: Usage) -> ModelFault:
    """The fault that the client library's error stands for; `usage` is what the request cost if it was read."""
    from pydantic_ai.exceptions import ModelAPIError, ModelConnectionError, ModelHTTPError, UserError

    if unacceptable := next((cause for cause in _causes(error) if isinstance(cause, UnacceptableAnswer)), None):
        passing = unacceptable.transient
        return ModelFault(str(unacceptable), transient=passing, usage=usage if passing else None)
    if isinstance(error, BrokenReply):
        return ModelFault(str(error), transient=True, usage=usage)
    if isinstance(error, TimeoutError):
        return ModelFault(f"no whole reply within {stated.timeout_seconds:g} s", transient=True, usage=usage)
    said = _error_message(error, key)
    if isinstance(error, ModelHTTPError):
        status = error.status_code
        transient, meaning = _explanation(error, status, stated, key)
        return ModelFault(
            f"{status}: {meaning}{said and f': {said}'}",
            transient=transient,
            retry_after_seconds=error.retry_after,
            usage=usage if error.in_stream else None,
        )
    if isinstance(error, ModelConnectionError):
        unsent = error.phase in ("connect", "pool")
        # Without what may stand before the host: a name and a password.
        server = urlsplit(stated.url).netloc.rpartition("@")[2] or stated.provider
        meaning = f"no connection to {server}" if unsent else "the connection broke off"
        reason = f"{meaning}: {_connection_problem(error, key)}"
        return ModelFault(reason, transient=True, usage=None if unsent else usage)
    if isinstance(error, UserError):
        return ModelFault(f"the request cannot be made: {said}", transient=False)
    after = error.retry_after if isinstance(error, ModelAPIError) else None
    return ModelFault(f"the answer makes no sense: {said}", transient=True, retry_after_seconds=after, usage=usage)


def _explanation(error: Exception, status: int, stated: ModelSpec, key: str | None) -> tuple[bool, str]:
    """Whether it passes by itself, and what it means for the user."""
    from pydantic_ai import exceptions as library

    match error:
        case library.ModelQuotaExceededError():
            return False, "the account's quota or credit is used up, top it up"
        case library.ModelAuthenticationError() if key is None:
            return False, KEY_NEEDED
        case library.ModelAuthenticationError():
            return False, f"the key in {key_location(stated)} was refused"
        case library.ModelContextWindowExceededError():
            return False, "the prompt is too long for the model, set `context_tokens` to what it can hold"
        case library.ModelNotFoundError():
            return False, not_found_reason(stated)
        case library.ModelRateLimitError():
            return True, "too many requests"
        case library.ModelUnavailableError():
            return True, "the model is overloaded or down"
    failed = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return is_transient(status), "the server failed" if failed else "the request was refused"


def not_found_reason(stated: ModelSpec, context: str = "") -> str:
    """What it means that a server knows no such model, or no such path; `of` says where to look."""
    bare = stated.url and stated.provider == "openai" and "/v1" not in stated.url
    usual = ", which mostly ends in /v1" if bare else ""
    return f"no model '{stated.model}' there, look at `model` and `url`{context}{usual}"


def server_message(body: object, key: str | None) -> str:
    """What a server said in the body of an error: one short line, cleaned, and without the key."""
    return _safe_line(_message(body), key)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what lies beneath it: the clients wrap what goes wrong below them, each in its own way."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _error_message(error: Exception, key: str | None) -> str:
    """What the server said, or else the client: one short line without control characters and without the key."""
    text = _message(getattr(error, "body", None)) or str(error) or type(error).__name__
    return _safe_line(text, key)


def _connection_problem(error: Exception, key: str | None) -> str:
    """What kept the two apart, and what to look at where that is known."""
    import ssl

    causes = [*_causes(error)]
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return "nobody listens there, is it running?"
    if any(isinstance(cause, ssl.SSLError) and cause.reason == "WRONG_VERSION_NUMBER" for cause in causes):
        return "it does not speak https, say http:// in `url`"
    return _root_cause(error, key)


def _root_cause(error: Exception, key: str | None) -> str:
    """What the system said of a connection, which is more than the clients make of it."""
    return _safe_line(
        next((text for cause in [*_causes(error)][::-1] if (text := str(cause))), type(error).__name__), key
    )


def _safe_line(text: str, key: str | None) -> str:
    text = " ".join(strip_hidden(without_key(text, key)[:_LOOKED_AT]).split())
    return one_line(without_key(text, key), _LONGEST)


def _message(body: object) -> str:
    """The message in the body of an error, in any of the usual shapes."""
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        return _message(inner.get("message", "") if isinstance(inner, Mapping) else inner)
    return body if isinstance(body, str) else ""
