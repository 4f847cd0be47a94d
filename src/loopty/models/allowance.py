"""The limit on what all calls of one trial may cost together."""

from __future__ import annotations

import math

from loopty.domain.errors import Crowded, LooptyError
from loopty.domain.model import Outage
from loopty.models.spend_caps import Price

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
        """The tokens of the calls that were settled."""
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
        """Why the call does not fit, in words for the user and for the model that proposed the candidate."""
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
