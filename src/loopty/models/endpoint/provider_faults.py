"""Why a provider did not answer a forwarded call, and whether it may do so later."""

from __future__ import annotations

import contextlib
import email.utils
import json
import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

from loopty.domain.model import ModelFault, ModelSpec, Usage
from loopty.models.client_faults import KEY_NEEDED, is_transient, not_found_reason, server_message
from loopty.models.endpoint.answer_source import HttpResponse
from loopty.models.endpoint.charges import Bill
from loopty.models.endpoint.http_exchange import RequestRefused
from loopty.models.http import UnacceptableAnswer
from loopty.models.keys import key_location

_KEY_REFUSED = (401, 402, 403)
_NOT_THERE = (404, 405, 410)
_BAD_GATEWAY = 502
_LOOKED_AT = 8_000
"""Bytes of a refusal: what is longer is no message."""
_WHOSE = " of the model under [roles.user]"


class ProviderFault(ModelFault):
    """A request that the provider did not answer; what it said instead, if anything."""

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
    answered: HttpResponse,
    headers: Mapping[str, str],
    stated: ModelSpec,
    path: str,
    key: str | None,
    *,
    has_answered: bool,
) -> ProviderFault | None:
    """The fault that a refusal stands for; None where the request itself is to blame.

    `place` is the path that was asked, `key` what was sent. `known`: the model has answered before, so what is not
    found now is something else that the request asks for.
    """
    status, error = answered.status, _error(answered.body)
    words = _quote(answered, key)
    if status in _KEY_REFUSED or _is_key_refused(error):
        why = KEY_NEEDED if key is None else f"the key in {key_location(stated)} was refused, or its account"
        # To the benchmark without what the server said: that may quote a part of the key.
        said = RequestRefused(_BAD_GATEWAY, "api_error", f"loopty: {status}: {why}")
        shown = HttpResponse(said.status, {"content-type": "application/json"}, said.body)
        return ProviderFault(f"{status} at {path}: {why}{words}", transient=False, response=shown)
    if not has_answered and (status in _NOT_THERE or error.get("code") == "model_not_found"):
        return ProviderFault(
            f"{status} at {path}: {not_found_reason(stated, _WHOSE)}{words}", transient=False, response=answered
        )
    if not is_transient(status):
        return None
    if b"insufficient_quota" in answered.body:
        why = "the account's quota is used up, top it up"
        return ProviderFault(f"{status}: {why}{words}", transient=False, response=answered)
    after = _retry_after(headers)
    return ProviderFault(
        f"the provider answered {status}{words}", transient=True, retry_after_seconds=after, response=answered
    )


def refusal_reason(answered: HttpResponse, path: str, key: str | None, *, has_answered: bool) -> str:
    """What a refusal says of a request that is itself to blame, as far as can be told."""
    doubt = "" if has_answered else f", or `model` or `url`{_WHOSE} is wrong"
    return f"{answered.status} at {path}: the request was refused{doubt}{_quote(answered, key)}"


def _is_key_refused(error: Mapping[str, Any]) -> bool:
    """As Google says it, with a status that means the request elsewhere."""
    details = error.get("details")
    return isinstance(details, list) and any(
        isinstance(detail, dict) and detail.get("reason") == "API_KEY_INVALID" for detail in details
    )


def _quote(answered: HttpResponse, key: str | None) -> str:
    """What the server said, to be put behind what it means."""
    said = server_message(_parse(answered.body), key)
    return f": {said}" if said and not said.startswith("<") else ""  # pages for people say nothing here


def _error(body: bytes) -> Mapping[str, Any]:
    said = _parse(body)
    error = said.get("error") if isinstance(said, dict) else None
    return error if isinstance(error, dict) else {}


def _parse(body: bytes) -> Any:
    """The JSON of an answer, or else its text."""
    text = body[:_LOOKED_AT].decode(errors="replace")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return said[0] if isinstance(said, list) and said else said  # Google streams so, refusals as well


@contextlib.contextmanager
def convert_faults(bill: Bill, stated: ModelSpec) -> Iterator[None]:
    """Have what goes wrong on the way to a provider raised as Down; what was never sent costs nothing."""
    import httpx2

    try:
        yield
        return
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        bill.usage = Usage()
        down = ProviderFault(f"no connection to the provider: {_error_text(error)}", transient=True)
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
        bill.usage = Usage()
        down = ProviderFault(f"`url` is no address of a server: {_error_text(error)}", transient=False)
    except (httpx2.TransportError, httpx2.StreamError) as error:
        down = ProviderFault(f"the connection to the provider broke: {_error_text(error)}", transient=True)
    except UnacceptableAnswer as error:
        down = ProviderFault(str(error), transient=error.transient)
    except TimeoutError:
        down = ProviderFault(f"no whole answer within {stated.timeout_seconds:g} s", transient=True)
    bill.failure = str(down)
    raise down


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds until the provider wants to be asked again, where it says so."""
    said = headers.get("retry-after", "")
    try:
        milliseconds = headers.get("retry-after-ms")
        seconds = float(milliseconds) / 1000 if milliseconds else _seconds_until(said)
    except (ValueError, OverflowError):
        return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _seconds_until(said: str) -> float:
    try:
        return float(said)
    except ValueError:
        return email.utils.parsedate_to_datetime(said).timestamp() - time.time()
