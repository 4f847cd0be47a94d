"""What answers the calls of a trial: a provider that is spoken to over HTTP, or a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from loopty.models.endpoint.forwarded_call import Call
from loopty.models.endpoint.http_exchange import Exchange, Request
from loopty.models.meter import Subject


@dataclass(frozen=True, slots=True)
class Answered:
    """A whole answer as it is sent."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class Visit:
    """One request of a trial, and where its answer goes."""

    request: Request
    subject: Subject
    """Whose it is, and who pays for it."""
    exchange: Exchange
    keep: Callable[[Answered], None]
    """Called with a reply that would be given again, before its end is sent."""
    fault: str = ""
    """Why the provider has not answered it so far."""
    refusal: str = ""
    """Why the provider would not answer such a request."""


class Cut(Exception):  # noqa: N818
    """The answer broke off when the benchmark had begun to read it."""


class Unanswered(Exception):  # noqa: N818
    """The provider cannot be had; what it said last goes to the benchmark."""

    def __init__(self, reason: str, said: Answered) -> None:
        super().__init__(reason)
        self.said = said


class Source(Protocol):
    async def answer(self, call: Call, visit: Visit) -> None:
        """Answer on the visit's exchange.

        Raises Refused, Exhausted, Overspent, Outage or Unanswered before anything was sent, Cut afterwards.
        """
        ...
