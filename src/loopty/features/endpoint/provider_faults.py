"""Pays for forwarded calls however they end, and says why a provider did not answer and whether a
retry may help.
"""

from __future__ import annotations

import contextlib
import email.utils
import json
import math
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from msgspec import Struct

from loopty.domain.errors import Exhausted
from loopty.domain.model import ModelFault, ModelSpec, Usage
from loopty.features.endpoint.answers import HttpResponse
from loopty.features.endpoint.http_exchange import RequestRefused
from loopty.features.endpoint.requests import ForwardedCall
from loopty.models.http import KEY_NEEDED, UnacceptableAnswer, is_transient, not_found_reason, server_message
from loopty.models.keys import key_location
from loopty.models.meter import CANCELLED, Meter, Subject

_KEY_REFUSED = (401, 402, 403)
_NOT_FOUND = (404, 405, 410)
_BAD_GATEWAY = 502
_READ_BYTES = 8_000
"""Bytes of a refusal that are read: a message is not longer."""
_USER_MODEL = " of the model under [roles.user]"


class ProviderFault(ModelFault):
    """A request that the provider did not answer; `response` is what it sent instead, or None."""

    def __init__(
        self,
        reason: str,
        *,
        transient: bool,
        retry_after_seconds: float | None = None,
        response: HttpResponse | None = None,
    ) -> None:
        super().__init__(reason, transient=transient, retry_after_seconds=retry_after_seconds)
        self.response = response


def provider_fault(
    answer: HttpResponse,
    headers: Mapping[str, str],
    spec: ModelSpec,
    path: str,
    key: str | None,
    *,
    has_answered: bool,
) -> ProviderFault | None:
    """Find the fault behind a refusal, or None when the request itself is to blame.

    `path` is the path of the request, `key` the key that was sent. `has_answered`: the model has answered before,
    so a 'not found' now is about something else in the request.
    """
    status, error = answer.status, _error(answer.body)
    quote = _quote(answer, key)
    if status in _KEY_REFUSED or _is_key_refused(error):
        reason = KEY_NEEDED if key is None else f"the key in {key_location(spec)} or its account was refused"
        # The benchmark does not see the server's message, which may quote a part of the key.
        refused = RequestRefused(_BAD_GATEWAY, "api_error", f"loopty: {status}: {reason}")
        shown = HttpResponse(refused.status, {"content-type": "application/json"}, refused.body)
        return ProviderFault(f"{status} at {path}: {reason}{quote}", transient=False, response=shown)
    # Until it has answered once, a missing model is an outage, and no candidate's fault.
    if not has_answered and (status in _NOT_FOUND or error.get("code") == "model_not_found"):
        return ProviderFault(
            f"{status} at {path}: {not_found_reason(spec, _USER_MODEL)}{quote}", transient=False, response=answer
        )
    if not is_transient(status):
        return None
    if b"insufficient_quota" in answer.body:
        reason = "the account's quota is used up (top it up)"
        return ProviderFault(f"{status}: {reason}{quote}", transient=False, response=answer)
    seconds = _retry_after(headers)
    return ProviderFault(
        f"the provider answered {status}{quote}", transient=True, retry_after_seconds=seconds, response=answer
    )


def refusal_reason(answer: HttpResponse, path: str, key: str | None, *, has_answered: bool) -> str:
    """Say why the provider refused a request that is itself to blame, as far as loopty can tell."""
    alternative = "" if has_answered else f", or `model` or `url`{_USER_MODEL} is wrong"
    return f"{answer.status} at {path}: the request was refused{alternative}{_quote(answer, key)}"


def _is_key_refused(error: Mapping[str, Any]) -> bool:
    """Say whether the key was refused Google's way, with a status that blames the request elsewhere."""
    details = error.get("details")
    return isinstance(details, list) and any(
        isinstance(detail, dict) and detail.get("reason") == "API_KEY_INVALID" for detail in details
    )


def _quote(answer: HttpResponse, key: str | None) -> str:
    """Quote the server's message, to follow the explanation."""
    message = server_message(_parse(answer.body), key)
    return f": {message}" if message and not message.startswith("<") else ""  # HTML pages say nothing here


def _error(body: bytes) -> Mapping[str, Any]:
    content = _parse(body)
    error = content.get("error") if isinstance(content, dict) else None
    return error if isinstance(error, dict) else {}


def _parse(body: bytes) -> Any:
    """Parse the JSON of an answer; return its text when it is not JSON."""
    text = body[:_READ_BYTES].decode(errors="replace")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return text
    # Google streams lists, refusals as well.
    return content[0] if isinstance(content, list) and content else content


@contextlib.contextmanager
def convert_faults(bill: Bill, spec: ModelSpec) -> Iterator[None]:
    """Raise connection errors as ProviderFault; a request that was never sent costs nothing."""
    import httpx2

    try:
        yield
        return
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        bill.usage = Usage()
        fault = ProviderFault(f"no connection to the provider: {_error_text(error)}", transient=True)
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
        bill.usage = Usage()
        fault = ProviderFault(f"`url` is not the address of a server: {_error_text(error)}", transient=False)
    except (httpx2.TransportError, httpx2.StreamError) as error:
        fault = ProviderFault(f"the connection to the provider broke: {_error_text(error)}", transient=True)
    except UnacceptableAnswer as error:
        fault = ProviderFault(str(error), transient=error.transient)
    except TimeoutError:
        fault = ProviderFault(f"no whole answer within {spec.timeout_seconds:g} s", transient=True)
    bill.failure = str(fault)
    raise fault


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Read the seconds until the provider allows the next request, or None when it does not say."""
    date_or_seconds = headers.get("retry-after", "")
    try:
        milliseconds = headers.get("retry-after-ms")
        seconds = float(milliseconds) / 1000 if milliseconds else _seconds_until(date_or_seconds)
    except (ValueError, OverflowError):
        return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _seconds_until(date_or_seconds: str) -> float:
    try:
        return float(date_or_seconds)
    except ValueError:
        return email.utils.parsedate_to_datetime(date_or_seconds).timestamp() - time.time()


class Bill(Struct):
    """The cost of a call, as far as it is known."""

    usage: Usage | None = None
    """None: the reserved amount is charged."""
    failure: str = CANCELLED
    """Why there was no reply, or empty."""


@contextlib.asynccontextmanager
async def charge(meter: Meter, call: ForwardedCall, subject: Subject) -> AsyncIterator[Bill]:
    """Reserve a call and yield its bill, to be filled in; settle it when the block ends, however it ends.

    Waits for the throttle, and for calls in flight that may need the rest of a cap. Raises Exhausted, and
    AllowanceExceeded.
    """
    reservation = await meter.reserve(call.size, subject)
    if reservation.expected.output_tokens < call.size.output:
        # The benchmark would score a reply cut short by a cap as if the candidate had been cut short.
        await reservation.close(Usage(), "too little budget is left for a whole reply")
        raise Exhausted(f"too little budget is left for a reply of {call.size.output} tokens to the benchmark")
    bill = Bill()
    try:
        yield bill
    finally:
        await reservation.close(bill.usage, bill.failure)
