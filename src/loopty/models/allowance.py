"""What the calls of one trial may cost together."""

from __future__ import annotations

import math

from loopty.domain.errors import Crowded, LooptyError
from loopty.domain.model import Outage
from loopty.models.spend_caps import Price

_NOTHING = Price(0, 0.0)


class AllowanceExceeded(LooptyError):  # noqa: N818
    """A trial asked for more of the model than one may have: its candidate has failed."""


class Allowance:
    """One trial's part of a role's caps. In memory: all calls of a trial are made by the process that runs it."""

    def __init__(self, cap: Price) -> None:
        self._cap = cap
        self._spent = _NOTHING
        self._answered = _NOTHING
        """Of what is spent, without the requests that the provider failed to answer."""
        self._in_flight: dict[str, Price] = {}

    @property
    def is_limited(self) -> bool:
        return not (math.isinf(self._cap.tokens) and math.isinf(self._cap.money_usd))

    def admit(self, estimate: Price) -> None:
        """Let a call of this estimated cost start; those in flight count at their worst, as in the caps of a run.

        Raises Overspent when there will be no room for it, Outage when there would be had the provider answered
        all that it was asked, and Crowded when there may be room once the calls in flight are settled.
        """
        if not self._fits(self._spent, estimate):
            if self._fits(self._answered, estimate):
                raise Outage(
                    f"requests without an answer have used up what a trial may spend: {self._excess(estimate)}"
                )
            raise AllowanceExceeded(self._excess(estimate))
        if not self._fits(self._spent, *self._in_flight.values(), estimate):
            raise Crowded("calls in flight may need the rest of what the trial may spend")

    def reserve(self, call: str, worst: Price) -> None:
        """A call that was let start is in flight, and may cost this much."""
        self._in_flight[call] = worst

    def settle(self, call: str, cost: Price, *, failed: bool) -> None:
        """Charge what a call cost; `failed` when the provider did not answer it."""
        del self._in_flight[call]
        self._spent = _sum(self._spent, cost)
        self._answered = self._answered if failed else _sum(self._answered, cost)

    def _fits(self, *prices: Price) -> bool:
        whole = _sum(*prices)
        return whole.tokens <= self._cap.tokens and whole.money_usd <= self._cap.money_usd

    def _excess(self, estimate: Price) -> str:
        """In words that a person and the model that proposed the candidate understand."""
        cap, spent = self._cap, self._spent
        if spent.tokens + estimate.tokens > cap.tokens:
            return (
                f"a request of {estimate.tokens:.0f} tokens beside {spent.tokens:.0f} used would pass the "
                f"{cap.tokens:.0f} that one trial may use (trial_tokens of the user role)"
            )
        return (
            f"a request of ${estimate.money_usd:.4f} beside ${spent.money_usd:.4f} spent would pass the "
            f"${cap.money_usd:.4f} that one trial may spend (trial_money_usd of the user role)"
        )


def _sum(*prices: Price) -> Price:
    return Price(sum(price.tokens for price in prices), sum(price.money_usd for price in prices))
