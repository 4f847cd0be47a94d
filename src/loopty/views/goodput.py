"""Comparable results per hour and per token, and the time spent without a result."""

from __future__ import annotations

from loopty.domain.model import Role
from loopty.domain.outcome import Ending
from loopty.domain.pool import BUDGETED_POOLS, Pool
from loopty.kit.records import Record
from loopty.record.calls import Spend
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.record.proposals import Proposals
from loopty.record.run_record import Run
from loopty.record.trials import TrialCounts
from loopty.views.cascade_costs import StageCost, stage_costs
from loopty.views.comparable import incumbents
from loopty.views.rated_nodes import RatedNodes, rated_nodes
from loopty.views.slice_value import SliceValue, slice_value

_CAUSES = {
    Ending.FAILED: "failed",
    Ending.TIMED_OUT: "timed out",
    Ending.PRUNED: "pruned",
    Ending.REFUSED: "rejected by a gate",
    Ending.STOPPED: "stopped by a stage",
    Ending.TAMPERED: "tampered",
    Ending.CANCELLED: "cancelled or lost",
}


class TrialCost(Record):
    """The trials of one cause and the time they took."""

    cause: str
    trials: int
    seconds: float
    """Summed over parallel trials."""


class Goodput(Record):
    """A result counts as comparable if it finished under the run's present fingerprint and its node was judged."""

    results: int
    """Without the baseline."""
    seconds: float
    """Spent on the run."""
    per_hour: float | None
    per_million_tokens: float | None
    """None when no tokens were used."""
    busy_seconds: float
    """Of all trials in the search, summed over parallel trials."""
    waste: tuple[TrialCost, ...]
    """Trials without a result, the most expensive cause first."""
    refused: int
    """Proposals that got no trial because they were not worth one or not allowed one."""
    repeats: TrialCost
    """Repeat measurements that separate a difference from noise: not waste, but the price of certainty."""
    repeats_of_discarded: int
    """How many of these repeats were for candidates that were not kept, as far as the record remembers them."""
    trial_slots_busy: float | None = None
    """The share of the time in which a trial slot had a trial, on average; None when no time was spent."""
    model_slots_busy: float | None = None
    """The share of the time in which a model slot had a call for a proposal; None when no model proposes."""
    cascade: tuple[StageCost, ...] = ()
    """The stages of the cascade, in their order."""
    tuning: SliceValue | None = None
    """What tune mode's slice costs and predicts; None where nothing was tuned."""


def goodput(
    history: History,
    run: Run,
    seconds: float,
    trial_slots: int = 1,
    model_slots: int = 1,
    rated: RatedNodes | None = None,
) -> Goodput:
    """`seconds` is the time spent on the run so far; the slots are those of the task.

    `rated` are the nodes of the run, where they are known.
    """
    rated = rated or rated_nodes(history, run.number)
    results = sum(count for kind, count in rated.kinds.items() if kind.is_comparable and not kind.is_baseline)
    tokens = Spend.of(run).total_tokens
    kept = frozenset(
        history[node].handle
        for fingerprint in Cohorts.of(run).noise
        for node in incumbents(history, run, fingerprint)
    )
    counts = [TrialCounts.of(run, pool) for pool in BUDGETED_POOLS]
    repeats = TrialCounts.of(run, Pool.REPEAT)
    repeated = {kind for kind in rated.kinds if kind.repeats and not kind.is_baseline}
    busy_seconds, asked_seconds = sum(count.busy_seconds for count in counts), Spend.of(run).seconds
    finished = repeats.endings.get(Ending.FINISHED, 0), repeats.seconds.get(Ending.FINISHED, 0.0)
    return Goodput(
        results,
        seconds,
        results * 3600 / seconds if seconds > 0 else None,
        results * 1e6 / tokens if tokens else None,
        busy_seconds,
        waste(run),
        sum(Proposals.of(run, pool).refused for pool in BUDGETED_POOLS),
        TrialCost("repeat measurements", *finished),
        sum(node.kind.repeats for node in rated.nodes if node.kind in repeated and node.handle not in kept),
        _share(busy_seconds, seconds, trial_slots),
        _share(asked_seconds[Role.EVOLVER], seconds, model_slots) if Role.EVOLVER in asked_seconds else None,
        stage_costs(run),
        slice_value(run),
    )


def waste(run: Run) -> tuple[TrialCost, ...]:
    """Trials without a result, the most expensive cause first."""
    counts = [TrialCounts.of(run, pool) for pool in BUDGETED_POOLS]
    costs = [
        TrialCost(
            cause,
            sum(count.endings.get(ending, 0) for count in counts),
            sum(count.seconds.get(ending, 0.0) for count in counts),
        )
        for ending, cause in _CAUSES.items()
    ]
    return tuple(sorted((cost for cost in costs if cost.trials), key=lambda cost: -cost.seconds))


def _share(busy_seconds: float, seconds: float, slots: int) -> float | None:
    """The share of a slot's time that was used, at most 1: the slots of a task may change between sessions."""
    return min(busy_seconds / (seconds * slots), 1.0) if seconds > 0 else None
