"""What each pool of a run has spent, and what is left of the budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from loopty.domain.outcome import Ending
from loopty.domain.pool import Pool
from loopty.domain.task import Pools
from loopty.kit.records import Record
from loopty.record.calls import Spend
from loopty.record.history import History
from loopty.record.proposals import Proposals
from loopty.record.run_record import Run
from loopty.record.trials import TrialCounts, Trials


class PoolCount(Record):
    """What one pool has spent, without the baseline."""

    pool: Pool
    started: int
    """Trials that ended or are running; cancelled ones are refunded."""
    limit: int | None
    endings: Mapping[str, int]
    refused: int
    last_refusal: str = ""
    """Why the newest of the refused ones got no trial."""


class Remaining(Record):
    """The rest of the budget; None means no limit."""

    attempts: int
    wall_seconds: float | None
    tokens: int | None
    money_usd: float | None
    tunes: int | None = None


def pools_in_use(run: Run, pools: Pools | None) -> list[Pool]:
    """Attempts, and every other pool that has trials or a budget."""
    return [pool for pool in Pool if pool is Pool.ATTEMPT or _is_in_use(run, pool, pools)]


def _is_in_use(run: Run, pool: Pool, pools: Pools | None) -> bool:
    if pool is Pool.REVIEW:  # `verified` reports it: the endings of reviews are not endings of trials
        return False
    counts, refused = TrialCounts.of(run, pool), Proposals.of(run, pool).refused
    planned = pool is Pool.CONTROL and pools is not None and pools.control > 0
    observed = not pool.rules.judging and bool(counts.endings)
    return planned or counts.started > 0 or refused > 0 or observed


def pool_count(history: History, run: Run, pool: Pool, pools: Pools | None) -> PoolCount:
    is_charged = pool.rules.judging or bool(pool.rules.limit)
    started = TrialCounts.of(run, pool).started if is_charged else _observing_trials(run, pool)
    limit = pools.limit(pool) if pools else None
    proposals = Proposals.of(run, pool)
    endings = _endings(history, run, pool)
    return PoolCount(pool, started, limit, endings, proposals.refused, proposals.last_refusal)


def _observing_trials(run: Run, pool: Pool) -> int:
    """The number of observing trials, including those of the baseline."""
    ended = sum(count for ending, count in TrialCounts.of(run, pool).endings.items() if ending != Ending.CANCELLED)
    return ended + sum(trial.pool is pool for trial in Trials.of(run).running.values())


def _endings(history: History, run: Run, pool: Pool) -> dict[str, int]:
    """How the pool's trials ended, most frequent first."""
    endings = Counter(TrialCounts.of(run, pool).endings)
    baseline = history[run.root].outcome
    if pool is Pool.ATTEMPT and baseline:
        endings[baseline.ending] -= 1
    return {ending: count for ending, count in endings.most_common() if count > 0}


def remaining_budget(run: Run, pools: Pools, seconds: float) -> Remaining:
    wall, tokens, money, tunes = pools.wall_seconds, pools.tokens, pools.money_usd, pools.tunes
    return Remaining(
        max(pools.attempts - TrialCounts.of(run, Pool.ATTEMPT).started, 0),
        None if wall is None else max(wall - seconds, 0.0),
        None if tokens is None else max(tokens - Spend.of(run).total_tokens, 0),
        None if money is None else max(money - Spend.of(run).total_money_usd, 0.0),
        None if tunes is None else max(tunes - TrialCounts.of(run, Pool.TUNE).started, 0),
    )
