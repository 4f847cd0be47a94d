"""What may still be spent. Charged when spending starts, returned when a trial is cancelled."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loopty.domain.outcome import Pool
from loopty.domain.task import Pools, Roles
from loopty.record.history import History
from loopty.record.records import Reservation, Run

MOST_REFUSED = 50
MOST_VAIN_CALLS = 40
"""Calls of a model cost money: fewer of them are made for nothing."""


def pool_limit_reached(run: Run, pools: Pools, pool: Pool, promised: int = 0) -> str | None:
    """Why no further trial of this pool may start, or None. Trials in flight are counted, and those promised."""
    limits = {Pool.ATTEMPT: pools.attempts, Pool.CONTROL: pools.control, Pool.REPEAT: pools.repeats}
    limit = limits.get(pool)
    if limit is not None and run.account(pool).started + promised >= limit:
        return f"all {limit} {pool} trials are spent"
    return None


def why_fruitless(run: Run, pool: Pool) -> str | None:
    """Why the proposer of this pool need not be asked again in this session, or None."""
    account = run.account(pool)
    if account.refused_in_row < MOST_REFUSED and account.vain_calls < MOST_VAIN_CALLS:
        return None
    paid = f" after {account.vain_calls} calls of a model" if account.vain_calls else ""
    return (
        f"the last {account.refused_in_row} proposals were refused{paid}, as in: {account.refused_because}; "
        "is there anything left to try?"
    )


def why_over(history: History, run: Run, pools: Pools, seconds: float) -> str | None:
    """Why the whole run is over, or None. `seconds` is the time spent on it so far."""
    if pools.wall_seconds is not None and seconds >= pools.wall_seconds:
        return f"the wall clock of {pools.wall_seconds:g} s is spent"
    if pools.tokens is not None and (used := tokens(run)) >= pools.tokens:
        return f"{used} of {pools.tokens} tokens are spent"
    if pools.money_usd is not None and (cost := money_usd(run)) >= pools.money_usd:
        return f"${cost:.2f} of ${pools.money_usd:.2f} is spent"
    account = run.account(Pool.ATTEMPT)
    if pools.patience is not None and account.since_best >= pools.patience:
        return f"no improvement in the last {account.since_best} attempts"
    return target_reached(history, run, pools)


def target_reached(history: History, run: Run, pools: Pools) -> str | None:
    """That the target is reached, or None."""
    target, best = pools.target, run.account(Pool.ATTEMPT).best
    if target is None or best is None:
        return None
    found, metrics = history[best].result(run.fingerprint), history.metrics(history[best])
    score = found.outcome.metrics.get(metrics[0].name) if found and metrics else None
    direction = metrics[0].direction if metrics else run.objective.direction
    if score is None or direction.sign * (score - target) < 0:
        return None
    return f"node {best} reached the target of {target:g} with {score:g}"


@dataclass(frozen=True, slots=True)
class Price:
    """Tokens and money."""

    tokens: float
    money_usd: float


def unaffordable(run: Run, pools: Pools, roles: Roles, role: str, more: Price) -> str | None:
    """Why a call of this estimated cost may never start, or None: what is spent leaves no room for it."""
    for whose, cap, spent_ in _caps(run, pools, roles, role, lambda _: Price(0, 0.0)):
        if spent_.tokens + more.tokens > cap.tokens:
            where = _stated(whose, role, "tokens")
            return f"{more.tokens:.0f} more tokens would pass the limit of {cap.tokens:.0f}{whose} ({where})"
        if spent_.money_usd + more.money_usd > cap.money_usd:
            where = _stated(whose, role, "money_usd")
            return f"${more.money_usd:.4f} more would pass the limit of ${cap.money_usd:.2f}{whose} ({where})"
    return None


def crowded(run: Run, pools: Pools, roles: Roles, role: str, more: Price) -> str | None:
    """Why a call may not start yet, or None.

    Calls in flight count at their worst, and the new one as estimated. So all that can ever pass a cap is what the
    last call really costs above its own estimate, whatever the width.
    """
    for whose, cap, spent_ in _caps(run, pools, roles, role, _worst):
        if spent_.tokens + more.tokens > cap.tokens or spent_.money_usd + more.money_usd > cap.money_usd:
            return f"calls in flight may need the rest of the limit{whose}"
    return None


def left(run: Run, pools: Pools, roles: Roles, role: str) -> Price:
    """What the role may still spend, calls in flight at their worst."""
    rests = [
        Price(cap.tokens - spent_.tokens, cap.money_usd - spent_.money_usd)
        for _, cap, spent_ in _caps(run, pools, roles, role, _worst)
    ]
    return Price(min(rest.tokens for rest in rests), min(rest.money_usd for rest in rests))


def _worst(hold: Reservation) -> Price:
    return Price(hold.max_tokens, hold.max_money_usd)


def _caps(
    run: Run, pools: Pools, roles: Roles, role: str, flying: Callable[[Reservation], Price]
) -> Iterator[tuple[str, Price, Price]]:
    """The run's limit and the role's: whose it is, what it is, and what is gone of it."""
    funds = roles.of(role)
    holds = [(hold.role, flying(hold)) for hold in run.holds.values()]
    yield (
        "",
        _cap(pools.tokens, pools.money_usd),
        Price(
            sum(run.tokens.values()) + sum(price.tokens for _, price in holds),
            sum(run.money_usd.values()) + sum(price.money_usd for _, price in holds),
        ),
    )
    own = [price for name, price in holds if name == role]
    yield (
        f" for the {role}",
        _cap(funds.tokens, funds.money_usd),
        Price(
            run.tokens.get(role, 0) + sum(price.tokens for price in own),
            run.money_usd.get(role, 0.0) + sum(price.money_usd for price in own),
        ),
    )


def _stated(whose: str, role: str, key: str) -> str:
    """Where the task file says it: what is spent can be allowed more there."""
    return f"{key} of [{f'roles.{role}' if whose else 'pools'}]"


def _cap(tokens_: int | None, money: float | None) -> Price:
    return Price(math.inf if tokens_ is None else tokens_, math.inf if money is None else money)


def tokens(run: Run) -> int:
    """Tokens spent, with what calls in flight have reserved."""
    return sum(run.tokens.values()) + sum(hold.tokens for hold in run.holds.values())


def money_usd(run: Run) -> float:
    return sum(run.money_usd.values()) + sum(hold.money_usd for hold in run.holds.values())
