"""The limits of a session: why it asks or tries nothing more, and how it ended."""

from __future__ import annotations

from collections.abc import Callable

from loopty.domain.outcome import Ending
from loopty.domain.pool import Pool
from loopty.domain.task import Noise, Pools
from loopty.engine import budget
from loopty.judge.confirmation import seconds_to_confirm
from loopty.kit.records import Record
from loopty.record.budgets import pools_in_force
from loopty.record.calls import Spend
from loopty.record.recorder import Recorder
from loopty.record.run_record import Run
from loopty.record.trials import TrialCounts
from loopty.record.verdicts import Incumbents


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
        """Why nothing more is asked, or None."""
        return self.over_reason() or self._spend_reason()

    def over_reason(self) -> str | None:
        """Why nothing new is tried either, or None."""
        history, run, pools = self._recorder.history, self._run, self._pools
        if pools.wall_seconds is not None:
            seconds = budget.session_seconds(run, self._clock()) + seconds_to_confirm(history, run, self._noise)
            if seconds >= pools.wall_seconds:
                return f"the time limit of {pools.wall_seconds:g} s is reached"
        since_best = Incumbents.of(run, Pool.ATTEMPT).since_best
        if pools.patience is not None and since_best >= pools.patience:
            return f"no improvement in the last {since_best} attempts"
        return budget.target_reason(history, run, pools)

    def _spend_reason(self) -> str | None:
        """Why no model may be asked now, or None. A call in flight counts as reserved, and is worth its trial."""
        self._recorder.record_waiting()
        spend, pools = Spend.of(self._run), self._pools
        if pools.tokens is not None and spend.total_tokens >= pools.tokens:
            return f"{spend.total_tokens} of {pools.tokens} tokens are spent"
        if pools.money_usd is not None and spend.total_money_usd >= pools.money_usd:
            return f"${spend.total_money_usd:.2f} of ${pools.money_usd:.2f} is spent"
        return None

    def why_idle(self) -> str | None:
        """Why no further attempt can start, or None where the budget is not the reason."""
        pool = Pool.ATTEMPT
        return budget.trial_refusal(self._run, self._pools, pool) or budget.fruitless_reason(self._run, pool)

    def finish(self, reason: str) -> Finish:
        """The session ended for this reason, and the budget allows no more."""
        return Finish(reason, self._is_sound())

    def finish_after_stop(self, reason: str) -> Finish:
        """The session was stopped: it can go on where the budget allows more."""
        return Finish(reason, self._is_sound(), resumable=self.stop_reason() is None)

    def _is_sound(self) -> bool:
        """Whether any attempt finished, or none was wanted: by the budget, or because the target is reached."""
        finished = TrialCounts.of(self._run, Pool.ATTEMPT).endings.get(Ending.FINISHED, 0)
        history = self._recorder.history
        wanted = self._pools.attempts > 0 and not budget.target_reason(history, self._run, self._pools)
        return finished > 1 or (finished == 1 and not wanted)
