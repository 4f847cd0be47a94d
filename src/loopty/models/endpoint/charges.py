"""Pays for the calls of a benchmark: reserved before they start, settled however they end."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from loopty.domain.errors import Exhausted
from loopty.domain.model import Usage
from loopty.models.endpoint.forwarded_call import ForwardedCall
from loopty.models.meter import CANCELLED, Meter, Subject


@dataclass(slots=True)
class Bill:
    """What is known of a call's cost by now."""

    usage: Usage | None = None
    """None: it is charged as it was reserved."""
    failure: str = CANCELLED
    """Why there was no reply; empty when there was one."""


@contextlib.asynccontextmanager
async def charge(meter: Meter, call: ForwardedCall, subject: Subject) -> AsyncIterator[Bill]:
    """The bill of a call, to be filled in; it is settled when the block ends, however that is.

    Waits for the throttle, and for calls in flight that may need the rest of a cap. Raises Exhausted, Overspent.
    """
    reservation = await meter.reserve(call.size, subject)
    if reservation.expected.output_tokens < call.size.output:
        # A reply cut short by a cap would be scored as if the candidate had been cut short.
        reservation.settle(Usage(), "too little is left for a whole reply")
        raise Exhausted(f"too little is left of a limit for a reply of {call.size.output} tokens to the benchmark")
    bill = Bill()
    try:
        yield bill
    finally:
        reservation.settle(bill.usage, bill.failure)
