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
from loopty.models.client_faults import UNKEYED, not_there, passes, quoted
from loopty.models.endpoint.answer_source import Answered
from loopty.models.endpoint.charges import Bill
from loopty.models.endpoint.http_exchange import Refused
from loopty.models.http import Unacceptable
from loopty.models.keys import place_of

_KEY_REFUSED = (401, 402, 403)
_NOT_THERE = (404, 405, 410)
_BAD_GATEWAY = 502
_LOOKED_AT = 8_000
"""Bytes of a refusal: what is longer is no message."""
_WHOSE = " of the model under [roles.user]"


class Down(ModelFault):
    """A request that the provider did not answer; what it said instead, if anything."""

    def __init__(
        self, reason: str, *, transient: bool, after: float | None = None, said: Answered | None = None
    ) -> None:
        super().__init__(reason, transient=transient, retry_after_seconds=after)
        self.said = said


def fault_of(
    answered: Answered, headers: Mapping[str, str], stated: ModelSpec, place: str, key: str | None, *, known: bool
) -> Down | None:
    """The fault that a refusal stands for; None where the request itself is to blame.

    `place` is the path that was asked, `key` what was sent. `known`: the model has answered before, so what is not
    found now is something else that the request asks for.
    """
    status, error = answered.status, _error(answered.body)
    words = _words_of(answered, key)
    if status in _KEY_REFUSED or _is_key_refused(error):
        why = UNKEYED if key is None else f"the key in {place_of(stated)} was refused, or its account"
        # To the benchmark without what the server said: that may quote a part of the key.
        said = Refused(_BAD_GATEWAY, "api_error", f"loopty: {status}: {why}")
        shown = Answered(said.status, {"content-type": "application/json"}, said.body)
        return Down(f"{status} at {place}: {why}{words}", transient=False, said=shown)
    if not known and (status in _NOT_THERE or error.get("code") == "model_not_found"):
        return Down(f"{status} at {place}: {not_there(stated, _WHOSE)}{words}", transient=False, said=answered)
    if not passes(status):
        return None
    if b"insufficient_quota" in answered.body:
        why = "the account's quota is used up, top it up"
        return Down(f"{status}: {why}{words}", transient=False, said=answered)
    after = _retry_after(headers)
    return Down(f"the provider answered {status}{words}", transient=True, after=after, said=answered)


def refusal_of(answered: Answered, place: str, key: str | None, *, known: bool) -> str:
    """What a refusal says of a request that is itself to blame, as far as can be told."""
    doubt = "" if known else f", or `model` or `url`{_WHOSE} is wrong"
    return f"{answered.status} at {place}: the request was refused{doubt}{_words_of(answered, key)}"


def _is_key_refused(error: Mapping[str, Any]) -> bool:
    """As Google says it, with a status that means the request elsewhere."""
    details = error.get("details")
    return isinstance(details, list) and any(
        isinstance(detail, dict) and detail.get("reason") == "API_KEY_INVALID" for detail in details
    )


def _words_of(answered: Answered, key: str | None) -> str:
    """What the server said, to be put behind what it means."""
    said = quoted(_parsed(answered.body), key)
    return f": {said}" if said and not said.startswith("<") else ""  # pages for people say nothing here


def _error(body: bytes) -> Mapping[str, Any]:
    said = _parsed(body)
    error = said.get("error") if isinstance(said, dict) else None
    return error if isinstance(error, dict) else {}


def _parsed(body: bytes) -> Any:
    """The JSON of an answer, or else its text."""
    text = body[:_LOOKED_AT].decode(errors="replace")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return said[0] if isinstance(said, list) and said else said  # Google streams so, refusals as well


@contextlib.contextmanager
def faults(bill: Bill, stated: ModelSpec) -> Iterator[None]:
    """Have what goes wrong on the way to a provider raised as Down; what was never sent costs nothing."""
    import httpx2

    try:
        yield
        return
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        bill.usage = Usage()
        down = Down(f"no connection to the provider: {_words(error)}", transient=True)
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
        bill.usage = Usage()
        down = Down(f"`url` is no address of a server: {_words(error)}", transient=False)
    except (httpx2.TransportError, httpx2.StreamError) as error:
        down = Down(f"the connection to the provider broke: {_words(error)}", transient=True)
    except Unacceptable as error:
        down = Down(str(error), transient=error.transient)
    except TimeoutError:
        down = Down(f"no whole answer within {stated.timeout_seconds:g} s", transient=True)
    bill.failure = str(down)
    raise down


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds until the provider wants to be asked again, where it says so."""
    said = headers.get("retry-after", "")
    try:
        milliseconds = headers.get("retry-after-ms")
        seconds = float(milliseconds) / 1000 if milliseconds else _seconds(said)
    except (ValueError, OverflowError):
        return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _seconds(said: str) -> float:
    try:
        return float(said)
    except ValueError:
        return email.utils.parsedate_to_datetime(said).timestamp() - time.time()
