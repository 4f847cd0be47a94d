"""What is spent of each limit, at which rate, and which limit ends the run first."""

from __future__ import annotations

from typing import Any

from loopty.dashboard.answers import finite
from loopty.dashboard.run_fold import RunFold
from loopty.domain.pool import Pool
from loopty.domain.task import Pools
from loopty.record.budgets import ChangedLimits, pools_in_force
from loopty.record.calls import Spend
from loopty.record.run_record import Run
from loopty.record.trials import TrialCounts

_LEAST_SECONDS = 1.0
_BURN_SAMPLES = 60
_LIMIT_NAMES = {
    "money": ("money_usd", "usd"),
    "attempts": ("attempts", "trials"),
    "control": ("control", "trials"),
    "repeats": ("repeats", "trials"),
    "tunes": ("tunes", "trials"),
    "time": ("wall_seconds", "seconds"),
    "tokens": ("tokens", "tokens"),
}


def pool_answers(
    run: Run, pools: Pools | None, elapsed: float, now: float, is_running: bool
) -> list[dict[str, Any]]:
    """A row for each pool with a limit or a use."""
    spend, limits = Spend.of(run), pools_in_force(run, pools) if pools else None
    used = {
        "money": spend.total_money_usd,
        "attempts": TrialCounts.of(run, Pool.ATTEMPT).started,
        "control": TrialCounts.of(run, Pool.CONTROL).started,
        "repeats": TrialCounts.of(run, Pool.REPEAT).started,
        "tunes": TrialCounts.of(run, Pool.TUNE).started,
        "time": elapsed,
        "tokens": spend.total_tokens,
    }
    rows = [_row(run, name, float(used[name]), limits, elapsed) for name in _LIMIT_NAMES]
    rows = [row for row in rows if row["used"] or row["limit"]]
    hours = [row["hours"] for row in rows if row["hours"] is not None]
    until = min(hours, default=None)
    for row in rows:
        own = row.pop("hours")
        row["ends_at"] = now + own * 3600 if own is not None and is_running else None
        rate = row["rate_per_hour"]
        row["forecast_used"] = row["used"] + rate * until if until is not None and rate is not None else None
    return rows


def _row(run: Run, name: str, used: float, limits: Pools | None, elapsed: float) -> dict[str, Any]:
    key, unit = _LIMIT_NAMES[name]
    limit = getattr(limits, key) if limits else None
    rate = used * 3600 / elapsed if elapsed >= _LEAST_SECONDS else None
    left = None if limit is None else max(limit - used, 0.0)
    return {
        "pool": name,
        "used": used,
        "limit": limit,
        "left": left,
        "unit": unit,
        "rate_per_hour": finite(rate),
        "changed": key in ChangedLimits.of(run).limits,
        "hours": left / rate if left is not None and rate else None,
    }


def ends_first(rows: list[dict[str, Any]], now: float) -> dict[str, Any] | None:
    """The pool that is spent first at the present rates."""
    known = [row for row in rows if row["ends_at"] is not None]
    if not known:
        return None
    first = min(known, key=lambda row: float(row["ends_at"]))
    return {"pool": first["pool"], "at": first["ends_at"], "in_seconds": first["ends_at"] - now}


def burn_samples(fold: RunFold) -> list[dict[str, Any]]:
    """What was spent at up to sixty moments of the run."""
    columns = fold.columns
    count = columns.detailed
    if not count:
        return []
    places = sorted({round(number * (count - 1) / (_BURN_SAMPLES - 1)) for number in range(_BURN_SAMPLES)})
    samples = []
    for place in places:
        money, tokens = fold.calls.spent_at(columns.times[place])
        samples.append({"at": columns.times[place], "money_usd": money, "tokens": tokens, "attempts": place})
    return samples
