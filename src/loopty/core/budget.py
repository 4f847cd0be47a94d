"""What may still be spent. Charged when spending starts, returned when a trial is cancelled."""

from __future__ import annotations

from loopty.core.history import History
from loopty.core.outcome import Pool
from loopty.core.records import Run
from loopty.core.task import Pools

MOST_REFUSED = 50


def spent(run: Run, pools: Pools, pool: Pool) -> str | None:
    """Why no further trial of this pool may start, or None. Trials in flight are counted."""
    limits = {Pool.ATTEMPT: pools.attempts, Pool.CONTROL: pools.control, Pool.REPEAT: pools.repeats}
    limit = limits.get(pool)
    if limit is not None and run.account(pool).started >= limit:
        return f"all {limit} {pool} trials are spent"
    return None


def fruitless(run: Run, pool: Pool) -> str | None:
    """Why the proposer of this pool need not be asked again in this session, or None."""
    refused = run.account(pool).refused_in_row
    return (
        f"the last {refused} proposals were refused: is there anything left to try?"
        if refused >= MOST_REFUSED
        else None
    )


def over(history: History, run: Run, pools: Pools, seconds: float) -> str | None:
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
    return reached(history, run, pools)


def reached(history: History, run: Run, pools: Pools) -> str | None:
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


def unaffordable(run: Run, pools: Pools, more_tokens: int, more_money_usd: float) -> str | None:
    """Why a call of this estimated cost may not start, or None. Calls in flight are counted."""
    if pools.tokens is not None and tokens(run) + more_tokens > pools.tokens:
        return f"{more_tokens} more tokens would pass the limit of {pools.tokens}"
    if pools.money_usd is not None and money_usd(run) + more_money_usd > pools.money_usd:
        return f"${more_money_usd:.4f} more would pass the limit of ${pools.money_usd:.2f}"
    return None


def tokens(run: Run) -> int:
    """Tokens spent, with what calls in flight have reserved."""
    return sum(run.tokens.values()) + sum(hold.tokens for hold in run.holds.values())


def money_usd(run: Run) -> float:
    return sum(run.money_usd.values()) + sum(hold.money_usd for hold in run.holds.values())
