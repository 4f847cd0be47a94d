"""What answers the calls of a trial: a provider over HTTP, or a role model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from loopty.kit.records import Record
from loopty.models.endpoint.forwarded_call import ForwardedCall
from loopty.models.endpoint.http_exchange import Exchange, Request
from loopty.models.meter import Subject


class HttpResponse(Record):
    """A whole answer, ready to be sent."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class TrialRequest:
    """One request of a trial, and the exchange that takes its answer."""

    request: Request
    subject: Subject
    """Which node it is for, and who pays for it."""
    exchange: Exchange
    keep: Callable[[HttpResponse], None]
    """Called with a reply that may be cached, before its end is sent."""
    model: str = ""
    """The name in the ledger of the model that answers."""
    fault: str = ""
    """Why the provider has not answered so far."""
    refusal: str = ""
    """Why the provider rejected the request itself."""


class BrokenAnswer(Exception):  # noqa: N818
    """The answer broke after the benchmark had begun to read it."""


class NoAnswer(Exception):  # noqa: N818
    """The provider is unavailable; its last response goes to the benchmark."""

    def __init__(self, reason: str, response: HttpResponse) -> None:
        super().__init__(reason)
        self.response = response


class AnswerSource(Protocol):
    async def answer(self, call: ForwardedCall, trial_request: TrialRequest) -> None:
        """Answer on the exchange of the trial's request.

        Raises RequestRefused, Exhausted, AllowanceExceeded, Outage or NoAnswer before anything was sent, and
        BrokenAnswer afterwards.
        """
        ...
