"""Caps on tokens and money: the run's and the role's, with calls in flight counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from loopty.domain.role_spec import Roles
from loopty.domain.task import Pools
from loopty.kit.records import Record
from loopty.record.budgets import pools_in_force
from loopty.record.calls import Reservation, Spend
from loopty.record.role_shares import RoleShares
from loopty.record.run_record import Run


class Price(Record):
    """Tokens and money."""

    tokens: float
    money_usd: float


class _Cap(Record):
    """One limit, and how much of it is used."""

    scope: str
    """Ends a sentence: empty for the run, else ` for the evolver`."""
    table: str
    """Where the task file sets the limit."""
    limit: Price
    used: Price


def cap_refusal(
    run: Run, pools: Pools, roles: Roles, role: str, call: Price, is_review: bool = False
) -> str | None:
    """Why a call of this estimated cost may never start, or None: past spending leaves no room for it.

    A review of a winner (`is_review`) is not bound to the share of its role.
    """
    for cap in _caps(run, pools, roles, role, lambda _: Price(0, 0.0), is_review):
        if cap.used.tokens + call.tokens > cap.limit.tokens:
            limit = f"{cap.limit.tokens:.0f}{cap.scope} (tokens of [{cap.table}])"
            return f"{call.tokens:.0f} more tokens would pass the limit of {limit}"
        if cap.used.money_usd + call.money_usd > cap.limit.money_usd:
            limit = f"${cap.limit.money_usd:.2f}{cap.scope} (money_usd of [{cap.table}])"
            return f"${call.money_usd:.4f} more would pass the limit of {limit}"
    return None


def wait_reason(
    run: Run, pools: Pools, roles: Roles, role: str, call: Price, is_review: bool = False
) -> str | None:
    """Why a call may not start yet, or None.

    Calls in flight count at their maximum, and the new one at its estimate. So only the last call's real cost
    above its own estimate can ever pass a cap, whatever the width.
    """
    for cap in _caps(run, pools, roles, role, _maximum, is_review):
        over_tokens = cap.used.tokens + call.tokens > cap.limit.tokens
        if over_tokens or cap.used.money_usd + call.money_usd > cap.limit.money_usd:
            return f"calls in flight may need the rest of the limit{cap.scope}"
    return None


def remaining(run: Run, pools: Pools, roles: Roles, role: str) -> Price:
    """What the role may still spend, with calls in flight at their maximum."""
    rests = [
        Price(cap.limit.tokens - cap.used.tokens, cap.limit.money_usd - cap.used.money_usd)
        for cap in _caps(run, pools, roles, role, _maximum)
    ]
    return Price(min(rest.tokens for rest in rests), min(rest.money_usd for rest in rests))


def _maximum(reservation: Reservation) -> Price:
    return Price(reservation.max_tokens, reservation.max_money_usd)


def _caps(
    run: Run,
    pools: Pools,
    roles: Roles,
    role: str,
    price_of: Callable[[Reservation], Price],
    is_review: bool = False,
) -> Iterator[_Cap]:
    """The run's limit, the role's and its share of the run's, with calls in flight at the price of `price_of`."""
    spend, budget, pools = Spend.of(run), roles.of(role), pools_in_force(run, pools)
    in_flight = [(call.role, price_of(call)) for call in spend.reservations.values()]
    yield _Cap(
        "",
        "pools",
        _limit(pools.tokens, pools.money_usd),
        Price(
            sum(spend.tokens.values()) + sum(price.tokens for _, price in in_flight),
            sum(spend.money_usd.values()) + sum(price.money_usd for _, price in in_flight),
        ),
    )
    own = [price for name, price in in_flight if name == role]
    used = Price(
        spend.tokens.get(role, 0) + sum(price.tokens for price in own),
        spend.money_usd.get(role, 0.0) + sum(price.money_usd for price in own),
    )
    yield _Cap(f" for the {role}", f"roles.{role}", _limit(budget.tokens, budget.money_usd), used)
    share = (RoleShares.of(run).shares or roles.shares).get(role) if roles.shares else None
    if share is not None and not is_review:
        whole = _limit(pools.tokens, pools.money_usd)
        limit = Price(share * whole.tokens, share * whole.money_usd)
        yield _Cap(f" for the {role}, {100 * share:.0f} % of the run's", "pools", limit, used)


def _limit(tokens: int | None, money_usd: float | None) -> Price:
    return Price(math.inf if tokens is None else tokens, math.inf if money_usd is None else money_usd)
