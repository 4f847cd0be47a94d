"""What the stages of a cascade cost, and what they saved."""

from __future__ import annotations

from loopty.domain.outcome import Ending
from loopty.domain.pool import SEARCH_POOLS
from loopty.kit.records import Record
from loopty.record.run_record import Run
from loopty.record.trials import TrialCounts


class StageCost(Record):
    """One stage of the cascade: the trials that it ran in, those that it stopped, and the time that it took."""

    name: str
    trials: int
    stopped: int
    seconds: float
    saved_seconds: float | None
    """What its stopped trials would have taken longer, by the mean of finished ones; None if none has finished."""


def stage_costs(run: Run) -> tuple[StageCost, ...]:
    """What each stage of the cascade cost and saved in the search."""
    counts = [TrialCounts.of(run, pool) for pool in SEARCH_POOLS]
    finished = sum(count.endings.get(Ending.FINISHED, 0) for count in counts)
    whole = sum(count.seconds.get(Ending.FINISHED, 0.0) for count in counts) / finished if finished else None
    costs: list[StageCost] = []
    for name in dict.fromkeys(name for count in counts for name in count.cascade):
        stages = [count.cascade[name] for count in counts if name in count.cascade]
        trials, stopped = sum(stage.runs for stage in stages), sum(stage.stopped for stage in stages)
        seconds = sum(stage.seconds for stage in stages)
        # A stopped trial has paid for this stage and for those before it.
        paid = sum(cost.seconds / cost.trials for cost in costs) + seconds / trials
        saved = None if whole is None else round(max(stopped * (whole - paid), 0.0), 6)
        costs.append(StageCost(name, trials, stopped, seconds, saved))
    return tuple(costs)
