"""Why a provider did not answer a forwarded call, and whether it may do so later."""

from __future__ import annotations

import contextlib
import email.utils
import math
import time
from collections.abc import Iterator, Mapping

from loopty.core.model import ModelFault, Stated, Usage
from loopty.models.endpoint.billing import Bill
from loopty.models.endpoint.source import Answered
from loopty.models.faults import passes
from loopty.models.keys import place_of
from loopty.models.wire import Unacceptable

_KEY_REFUSED = (401, 402, 403)


class Down(ModelFault):
    """A request that the provider did not answer; what it said instead, if anything."""

    def __init__(
        self, reason: str, *, transient: bool, after: float | None = None, said: Answered | None = None
    ) -> None:
        super().__init__(reason, transient=transient, retry_after_seconds=after)
        self.said = said


def fault_of(answered: Answered, headers: Mapping[str, str], stated: Stated) -> Down | None:
    """The fault that a refusal stands for; None where the request itself is to blame."""
    status = answered.status
    if status in _KEY_REFUSED:
        # Without what it said: that may quote the key.
        return Down(f"{status}: the key in {place_of(stated)} was refused, or its account", transient=False)
    if not passes(status):
        return None
    if b"insufficient_quota" in answered.body:
        return Down(f"{status}: the account's quota is used up, top it up", transient=False, said=answered)
    return Down(f"the provider answered {status}", transient=True, after=_retry_after(headers), said=answered)


@contextlib.contextmanager
def faults(bill: Bill, stated: Stated) -> Iterator[None]:
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
