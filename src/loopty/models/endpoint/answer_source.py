"""What answers the calls of a trial: a provider that is spoken to over HTTP, or a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from loopty.models.endpoint.forwarded_call import ForwardedCall
from loopty.models.endpoint.http_exchange import Exchange, Request
from loopty.models.meter import Subject


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A whole answer as it is sent."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class TrialRequest:
    """One request of a trial, and where its answer goes."""

    request: Request
    subject: Subject
    """Whose it is, and who pays for it."""
    exchange: Exchange
    keep: Callable[[HttpResponse], None]
    """Called with a reply that would be given again, before its end is sent."""
    fault: str = ""
    """Why the provider has not answered it so far."""
    refusal: str = ""
    """Why the provider would not answer such a request."""


class BrokenAnswer(Exception):  # noqa: N818
    """The answer broke off when the benchmark had begun to read it."""


class NoAnswer(Exception):  # noqa: N818
    """The provider cannot be had; what it said last goes to the benchmark."""

    def __init__(self, reason: str, response: HttpResponse) -> None:
        super().__init__(reason)
        self.response = response


class AnswerSource(Protocol):
    async def answer(self, call: ForwardedCall, trial_request: TrialRequest) -> None:
        """Answer on the visit's exchange.

        Raises Refused, Exhausted, Overspent, Outage or Unanswered before anything was sent, Cut afterwards.
        """
        ...
