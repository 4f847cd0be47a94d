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
