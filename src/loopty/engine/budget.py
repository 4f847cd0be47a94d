"""What a run may still spend, and why a session asks or tries nothing more.

A trial is charged when it starts and refunded when it is cancelled.
"""

from __future__ import annotations

from collections.abc import Callable

from loopty.domain.objective import score_metric
from loopty.domain.task import Noise, Pools
from loopty.domain.trial import Ending, Pool
from loopty.judge.revisions import may_ask_again, seconds_of_pair, seconds_to_confirm
from loopty.kit.records import Record
from loopty.record.calls import Spend
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.nodes import Proposals
from loopty.record.recorder import Recorder
from loopty.record.run_record import Run
from loopty.record.search_summary import SearchSummary
from loopty.record.sessions import Session, pools_in_force
from loopty.record.trials import Cohorts, TrialCounts
from loopty.record.tunings import Tunings
from loopty.record.verdicts import Incumbents

MAX_REFUSED_IN_ROW = 50
MAX_FRUITLESS_CALLS = 40
"""Lower, because model calls cost money."""


_SHARE_OF_UNDECIDED = 0.1
"""Of a time limit, at most so much is left at the end for what is undecided."""


def trial_refusal(run: Run, pools: Pools, pool: Pool, promised: int = 0) -> str | None:
    """Tell why no more trials of this pool may start, or None. Running ones and promises to nodes count, too."""
    limit = pools_in_force(run, pools).limit(pool)
    promised += len(Tunings.of(run, pool).open)
    if limit is not None and TrialCounts.of(run, pool).started + promised >= limit:
        return f"all {limit} {pool} trials are spent"
    return None


def fruitless_reason(run: Run, pool: Pool) -> str | None:
    """Tell why this session need not ask the pool's proposer again, or None."""
    proposals = Proposals.of(run, pool)
    if proposals.refused_in_row < MAX_REFUSED_IN_ROW and proposals.fruitless_calls < MAX_FRUITLESS_CALLS:
        return None
    calls = f" after {proposals.fruitless_calls} model calls" if proposals.fruitless_calls else ""
    return (
        f"the last {proposals.refused_in_row} proposals were refused{calls}, the last one because: "
        f"{proposals.last_refusal}; is there anything left to try?"
    )


def target_reason(history: History, run: Run, pools: Pools) -> str | None:
    """Tell how the target was reached, as a sentence; None if it was not."""
    target, best = pools.target, Incumbents.of(run, Pool.ATTEMPT).best
    result = history[best].result(Cohorts.of(run).fingerprint) if best else None
    if target is None or best is None or result is None or not (metrics := history.metrics(history[best])):
        return None
    metric = score_metric(metrics)
    score = result.outcome.metrics.get(metric.name)
    if score is None or metric.direction.sign * (score - target) < 0:
        return None
    return f"{history.name(best)} reached the target of {target:g} with {score:g}"


def session_seconds(run: Run, now: float) -> float:
    """Compute the time spent on the run in all sessions, the present one up to now; pauses do not count."""
    session = Session.of(run)
    return session.seconds if session.is_paused else session.seconds_before + now - session.since


def _side_nodes(history: History, run: Run) -> list[Node]:
    return [history[node] for node in SearchSummary.of(run).side_nodes]


class Finish(Record):
    """How a session ended. `sound` is False when nothing succeeded."""

    reason: str
    sound: bool
    resumable: bool = False


class SessionLimits:
    """What the budget of one run still allows, by its history now."""

    def __init__(
        self, recorder: Recorder, run: int, pools: Pools, noise: Noise, clock: Callable[[], float]
    ) -> None:
        self._recorder = recorder
        self._run_number = run
        self._task_pools = pools
        self._noise = noise
        self._clock = clock

    @property
    def _run(self) -> Run:
        return self._recorder.history.runs[self._run_number]

    @property
    def _pools(self) -> Pools:
        return pools_in_force(self._run, self._task_pools)

    def stop_reason(self) -> str | None:
        """Tell why nothing more is asked, or None."""
        return self.over_reason() or self._spend_reason()

    def over_reason(self) -> str | None:
        """Tell why nothing new is tried either, or None."""
        history, run, pools = self._recorder.history, self._run, self._pools
        reserved = seconds_to_confirm(history, run, self._noise)
        if pools.wall_seconds is not None and any(map(may_ask_again, _side_nodes(history, run))):
            reserved += min(self._noise.pairs * seconds_of_pair(run), _SHARE_OF_UNDECIDED * pools.wall_seconds)
        if not self._has_time(reserved):
            return f"the time limit of {pools.wall_seconds:g} s is reached"
        since_best = Incumbents.of(run, Pool.ATTEMPT).since_best
        if pools.patience is not None and since_best >= pools.patience:
            return f"no improvement in the last {since_best} attempts"
        return target_reason(history, run, pools)

    def can_ask_again(self) -> bool:
        """Say whether the budget allows to measure an undecided node again, before the confirmation."""
        history, run, noise = self._recorder.history, self._run, self._noise
        pair = seconds_of_pair(run)
        is_affordable = trial_refusal(run, self._pools, Pool.REPEAT) is None
        is_done = target_reason(history, run, self._pools) is not None
        return is_affordable and not is_done and self._has_time(seconds_to_confirm(history, run, noise) + pair)

    def _has_time(self, reserved: float) -> bool:
        """Say whether more is left of the time limit than is reserved."""
        limit = self._pools.wall_seconds
        return limit is None or session_seconds(self._run, self._clock()) + reserved < limit

    def _spend_reason(self) -> str | None:
        """Tell why no model may be asked, or None. A call in flight counts as reserved and is worth its trial."""
        self._recorder.record_waiting()
        spend, pools = Spend.of(self._run), self._pools
        if pools.tokens is not None and spend.total_tokens >= pools.tokens:
            return f"{spend.total_tokens} of {pools.tokens} tokens are spent"
        if pools.money_usd is not None and spend.total_money_usd >= pools.money_usd:
            return f"${spend.total_money_usd:.2f} of ${pools.money_usd:.2f} is spent"
        return None

    def why_idle(self) -> str | None:
        """Tell why no further attempt can start, or None if the budget is not the reason."""
        pool = Pool.ATTEMPT
        return trial_refusal(self._run, self._pools, pool) or fruitless_reason(self._run, pool)

    def finish(self, reason: str) -> Finish:
        """Return the end of a session for this reason, with no budget for more."""
        return Finish(reason, self._is_sound())

    def finish_after_stop(self, reason: str) -> Finish:
        """Return the end of a session that was stopped: it can continue if the budget allows more."""
        return Finish(reason, self._is_sound(), resumable=self.stop_reason() is None)

    def _is_sound(self) -> bool:
        """Say whether any attempt finished, or none was wanted: by the budget, or as the target is reached."""
        finished = TrialCounts.of(self._run, Pool.ATTEMPT).endings.get(Ending.FINISHED, 0)
        history = self._recorder.history
        wanted = self._pools.attempts > 0 and not target_reason(history, self._run, self._pools)
        return finished > 1 or (finished == 1 and not wanted)
