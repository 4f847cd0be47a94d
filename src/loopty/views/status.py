"""Where a run stands. O(pools and trials in flight), however long the run."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from loopty.core import budget
from loopty.core.history import History
from loopty.core.ids import NodeId
from loopty.core.objective import Direction
from loopty.core.outcome import Pool
from loopty.core.records import Run, trial_parts
from loopty.core.space import Value
from loopty.core.task import Pools
from loopty.views.change import Change, change


class State(enum.StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"
    LOST = "lost"
    """Its process died without a word; the next `loopty optimize` goes on."""
    IDLE = "idle"
    """Nobody has driven it yet."""


@dataclass(frozen=True, slots=True)
class Count:
    """What one pool has spent; the baseline is not counted."""

    pool: Pool
    started: int
    """Trials that ended or run; cancelled ones are given back."""
    limit: int | None
    endings: Mapping[str, int]
    refused: int


@dataclass(frozen=True, slots=True)
class Standing:
    """A node with its score."""

    node: NodeId
    score: float
    over_baseline: Change | None
    """None for the baseline itself."""
    params: Mapping[str, Value]
    edited: bool
    """Whether its files differ from the baseline's."""


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of the budget; None where there is no limit."""

    attempts: int
    wall_seconds: float | None
    tokens: int | None
    money_usd: float | None


@dataclass(frozen=True, slots=True)
class Airborne:
    """A trial in flight."""

    node: NodeId
    number: int
    pool: Pool
    age_seconds: float


@dataclass(frozen=True, slots=True)
class Status:
    run: int
    criteria: str
    state: State
    driver: str
    """The process that drives it, or drove it when it was lost."""
    reason: str
    """Why the last session ended."""
    metric: str
    direction: Direction
    counts: tuple[Count, ...]
    baseline: Standing | None
    best: Standing | None
    control: Standing | None
    """The best of the control, where there is one."""
    uplift: Change | None
    """Of the best attempt over the best of the control."""
    since_best: int
    elapsed_seconds: float
    trials_per_second: float | None
    tokens: int
    money_usd: float
    left: Left | None
    flights: tuple[Airborne, ...]

    def count(self, pool: Pool) -> Count:
        return next(count for count in self.counts if count.pool is pool)

    @property
    def refused(self) -> int:
        return sum(count.refused for count in self.counts)


def status(
    history: History, run: Run, now: float, alive: Callable[[str], bool], pools: Pools | None = None
) -> Status:
    """`alive` tells whether the process that an owner names still runs; `pools` is the budget, if known."""
    state = _state(run, alive)
    seconds = run.seconds_before + now - run.session_from if state is State.RUNNING else run.seconds
    root = history[run.root]
    metrics = history.metrics(root)
    metric, direction = (metrics[0].name, metrics[0].direction) if metrics else ("score", run.objective.direction)
    baseline = _standing(history, run.root, None, direction)
    best = _standing(history, run.account(Pool.ATTEMPT).best, baseline, direction)
    shown = [pool for pool in Pool if pool is Pool.ATTEMPT or _in_use(run, pool, pools)]
    control = None
    if Pool.CONTROL in shown:
        control = _standing(history, run.account(Pool.CONTROL).best, baseline, direction)
    ended = sum(sum(run.account(pool).endings.values()) for pool in Pool)
    return Status(
        run.number,
        run.criteria,
        state,
        run.driver,
        run.ended,
        metric,
        direction,
        tuple(_count(history, run, pool, pools) for pool in shown),
        baseline,
        best,
        control,
        change(best.score, control.score, direction) if best and control else None,
        run.account(Pool.ATTEMPT).since_best,
        seconds,
        ended / seconds if ended and seconds > 0 else None,
        budget.tokens(run),
        budget.money_usd(run),
        _left(run, pools, seconds) if pools else None,
        tuple(
            Airborne(*trial_parts(name), flight.pool, max(now - flight.since, 0.0))
            for name, flight in run.flights.items()
        ),
    )


def _state(run: Run, alive: Callable[[str], bool]) -> State:
    if run.driver:
        return State.RUNNING if alive(run.driver) else State.LOST
    return State.STOPPED if run.ended else State.IDLE


def _standing(
    history: History, node: NodeId | None, baseline: Standing | None, direction: Direction
) -> Standing | None:
    if node is None:
        return None
    found = history[node]
    score = history.score(found) if found.outcome and found.outcome.finished else None
    if score is None:
        return None
    better = change(score, baseline.score, direction) if baseline and node != baseline.node else None
    edited = found.tree != history[history.runs[node.run].root].tree
    return Standing(node, score, better, found.params, edited)


def _in_use(run: Run, pool: Pool, pools: Pools | None) -> bool:
    account = run.account(pool)
    planned = pool is Pool.CONTROL and pools is not None and pools.control > 0
    return planned or account.started > 0 or account.refused > 0


def _count(history: History, run: Run, pool: Pool, pools: Pools | None) -> Count:
    account = run.account(pool)
    limits = {Pool.ATTEMPT: pools.attempts, Pool.CONTROL: pools.control} if pools else {}
    return Count(pool, account.started, limits.get(pool), _endings(history, run, pool), account.refused)


def _endings(history: History, run: Run, pool: Pool) -> dict[str, int]:
    """How the pool's trials ended, most frequent first."""
    endings = Counter(run.account(pool).endings)
    baseline = history[run.root].outcome
    if pool is Pool.ATTEMPT and baseline:
        endings[baseline.ending] -= 1
    return {ending: count for ending, count in endings.most_common() if count > 0}


def _left(run: Run, pools: Pools, seconds: float) -> Left:
    wall, tokens, money = pools.wall_seconds, pools.tokens, pools.money_usd
    return Left(
        max(pools.attempts - run.account(Pool.ATTEMPT).started, 0),
        None if wall is None else max(wall - seconds, 0.0),
        None if tokens is None else max(tokens - budget.tokens(run), 0),
        None if money is None else max(money - budget.money_usd(run), 0.0),
    )
