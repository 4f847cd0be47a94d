"""One trial's access to the model: what its calls may cost together, and the failures that its candidate can be
blamed for.
"""

from __future__ import annotations

import hmac
import math
import secrets
import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

from loopty.domain.errors import Crowded, Exhausted, LooptyError
from loopty.domain.ids import NodeId
from loopty.domain.model import Outage
from loopty.models.purse import Price

_HEADERS = ("x-api-key", "x-goog-api-key")


class TrialAccess:
    """The trial sends a key of its own that is worth nothing elsewhere; loopty has the real key."""

    def __init__(self, model: str, allowance: Allowance) -> None:
        self.model = model
        """The name by which the trial asks for the model."""
        self._allowance = allowance
        self.open_requests = 0
        """Requests that are being answered."""
        self.key = f"loopty-{secrets.token_hex(16)}"
        """The trial's own key."""
        self.calls: list[str] = []
        """The names of its calls."""
        self.exhausted: Exhausted | None = None
        self.outage: Outage | None = None
        self.refusal = ""
        """Why the provider refused the last request itself, or empty."""
        self.allowance_exceeded: AllowanceExceeded | None = None
        """Why the candidate has failed, whatever the benchmark says: it asked for more than its allowance."""

    @property
    def tokens(self) -> int:
        """Count the tokens of its calls that have ended."""
        return self._allowance.spent_tokens

    def admits(self, headers: Mapping[str, str]) -> bool:
        """Say whether a request has the trial's key, in any header in which a provider's clients send theirs."""
        keys = [headers.get(name, "") for name in _HEADERS]
        keys.append(headers.get("authorization", "").removeprefix("Bearer ").strip())
        return any(hmac.compare_digest(key.encode(), self.key.encode()) for key in keys)

    def excuse(self, finished: bool) -> LooptyError | None:
        """Say why the trial tells nothing about its node, or return None.

        Once a cap is used up, not even a result counts: it was made with fewer calls than others had. An outage of
        the provider is something that a benchmark may have coped with.
        """
        return self.exhausted or (None if finished else self.outage)


ServeTrial = Callable[[NodeId, socket.socket], AbstractAsyncContextManager[TrialAccess]]
"""Serves the model to a trial of the node at a listening socket, until the block ends."""


_NOTHING = Price(0, 0.0)


class AllowanceExceeded(LooptyError):  # noqa: N818
    """A trial wanted to spend more on the model than its allowance: its candidate has failed."""


class Allowance:
    """Tokens and money that one trial may spend. In memory: one process runs the trial and makes all its calls."""

    def __init__(self, cap: Price) -> None:
        self._cap = cap
        self._spent = _NOTHING
        self._answered = _NOTHING
        """What was spent on requests that the provider answered."""
        self._in_flight: dict[str, Price] = {}

    @property
    def spent_tokens(self) -> int:
        """Count the tokens of the calls that were settled."""
        return int(self._spent.tokens)

    @property
    def is_limited(self) -> bool:
        return not (math.isinf(self._cap.tokens) and math.isinf(self._cap.money_usd))

    def admit(self, estimate: Price) -> None:
        """Check that a call of this estimated cost may start; calls in flight count at their maximum, as in a run.

        Raises AllowanceExceeded when there is no room for it, Outage when only requests that the provider did not
        answer have used up the room, and Crowded when there may be room once the calls in flight are settled.
        """
        if not self._fits(self._spent, estimate):
            if self._fits(self._answered, estimate):
                raise Outage(
                    f"requests without an answer have used up the trial's allowance: {self._excess(estimate)}"
                )
            raise AllowanceExceeded(self._excess(estimate))
        if not self._fits(self._spent, *self._in_flight.values(), estimate):
            raise Crowded("calls in flight may need the rest of the trial's allowance")

    def reserve(self, call: str, maximum: Price) -> None:
        """Set aside the maximum cost of a call that now starts."""
        self._in_flight[call] = maximum

    def settle(self, call: str, cost: Price, *, failed: bool) -> None:
        """Charge the cost of a call; `failed` when the provider did not answer it."""
        del self._in_flight[call]
        self._spent = _sum(self._spent, cost)
        self._answered = self._answered if failed else _sum(self._answered, cost)

    def _fits(self, *prices: Price) -> bool:
        total = _sum(*prices)
        return total.tokens <= self._cap.tokens and total.money_usd <= self._cap.money_usd

    def _excess(self, estimate: Price) -> str:
        """Say why the call does not fit, in words for the user and for the model that proposed the candidate."""
        cap, spent = self._cap, self._spent
        if spent.tokens + estimate.tokens > cap.tokens:
            return (
                f"a request of {estimate.tokens:.0f} tokens on top of {spent.tokens:.0f} used would pass the "
                f"{cap.tokens:.0f} that one trial may use (trial_tokens of the user role)"
            )
        return (
            f"a request of ${estimate.money_usd:.4f} on top of ${spent.money_usd:.4f} spent would pass the "
            f"${cap.money_usd:.4f} that one trial may spend (trial_money_usd of the user role)"
        )


def _sum(*prices: Price) -> Price:
    return Price(sum(price.tokens for price in prices), sum(price.money_usd for price in prices))
