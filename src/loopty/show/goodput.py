"""Results per hour and per token, and the time without results."""

from __future__ import annotations

from loopty.domain.model import Role
from loopty.domain.trial import BUDGETED_POOLS, Ending, Pool
from loopty.kit.records import Record
from loopty.record.calls import Spend
from loopty.record.history import History
from loopty.record.nodes import Proposals
from loopty.record.run_record import Run
from loopty.record.trials import Cohorts, TrialCounts
from loopty.show.comparisons import incumbents
from loopty.show.figures import duration, plural, three_digits
from loopty.show.rated_nodes import RatedNodes, rated_nodes
from loopty.show.stages import SliceValue, StageCost, slice_text, slice_value, stage_costs, stage_text
from loopty.show.terminal import Terminal, cut, wrap

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
    results = sum(node.is_comparable and not node.is_baseline for node in rated.nodes)
    kept = frozenset(
        history[node].handle
        for fingerprint in Cohorts.of(run).noise
        for node in incumbents(history, run, fingerprint)
    )
    repeats = sum(node.repeats for node in rated.nodes if not node.is_baseline and node.handle not in kept)
    return goodput_of(run, results, seconds, trial_slots, model_slots, repeats)


def goodput_of(
    run: Run,
    results: int,
    seconds: float,
    trial_slots: int = 1,
    model_slots: int = 1,
    repeats_of_discarded: int = 0,
) -> Goodput:
    """Compute the goodput where the comparable results are counted already."""
    tokens = Spend.of(run).total_tokens
    counts = [TrialCounts.of(run, pool) for pool in BUDGETED_POOLS]
    repeats = TrialCounts.of(run, Pool.REPEAT)
    busy_seconds, asked_seconds = sum(count.busy_seconds for count in counts), Spend.of(run).seconds
    finished = repeats.endings.get(Ending.FINISHED, 0), repeats.seconds.get(Ending.FINISHED, 0.0)
    return Goodput(
        results=results,
        seconds=seconds,
        per_hour=results * 3600 / seconds if seconds > 0 else None,
        per_million_tokens=results * 1e6 / tokens if tokens else None,
        busy_seconds=busy_seconds,
        waste=waste(run),
        refused=sum(Proposals.of(run, pool).refused for pool in BUDGETED_POOLS),
        repeats=TrialCost("repeat measurements", *finished),
        repeats_of_discarded=repeats_of_discarded,
        trial_slots_busy=_share(busy_seconds, seconds, trial_slots),
        model_slots_busy=_share(asked_seconds[Role.EVOLVER], seconds, model_slots)
        if Role.EVOLVER in asked_seconds
        else None,
        cascade=stage_costs(run),
        tuning=slice_value(run),
    )


def waste(run: Run) -> tuple[TrialCost, ...]:
    """List trials without a result, the most expensive cause first."""
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
    """Return the used share of a slot's time, at most 1: the slots of a task may change between sessions."""
    return min(busy_seconds / (seconds * slots), 1.0) if seconds > 0 else None


_NAMES = 20


def goodput_text(goodput: Goodput, columns: int = 80, terminal: Terminal | None = None) -> str:
    terminal = terminal or Terminal()
    lines = wrap(_headline(goodput), columns)
    if goodput.waste or goodput.refused:
        head = f"  {'wasted':<{_NAMES}}{'trials':>8}{'time':>14}{'share':>8}"
        lines.append(terminal.paint(cut(head, columns), "dim"))
    lines += [cut(_row(cost, goodput.busy_seconds), columns) for cost in goodput.waste]
    if goodput.refused:
        lines.append(cut(f"  {'refused proposals':<{_NAMES}}{goodput.refused:>8,}", columns))
    for stage in goodput.cascade:
        lines += wrap(stage_text(stage), columns)
    if goodput.tuning:
        lines += wrap(slice_text(goodput.tuning), columns)
        lines += wrap(goodput.tuning.advice, columns) if goodput.tuning.advice else []
    if goodput.repeats.trials:
        lines += wrap(_repeats_text(goodput), columns)
    if busy := _slots_text(goodput):
        lines += wrap(busy, columns)
    return terminal.render("\n".join(lines))


def _headline(goodput: Goodput) -> str:
    text = f"{plural(goodput.results, 'comparable result')} in {duration(goodput.seconds)}"
    if goodput.per_hour is not None:
        text += f": {three_digits(goodput.per_hour)} per hour"
    if goodput.per_million_tokens is not None:
        text += f", {three_digits(goodput.per_million_tokens)} per million tokens"
    return text


def _row(cost: TrialCost, busy_seconds: float) -> str:
    share = _share_text(cost.seconds, busy_seconds)
    return f"  {cost.cause:<{_NAMES}}{cost.trials:>8,}{duration(cost.seconds):>14}{share:>8}"


def _repeats_text(goodput: Goodput) -> str:
    """`53 repeat measurements took 63 s (79 %); 8 for candidates that were not kept`."""
    repeats = goodput.repeats
    share = _share_text(repeats.seconds, goodput.busy_seconds)
    text = f"{plural(repeats.trials, 'repeat measurement')} took {duration(repeats.seconds)} ({share})"
    return (
        f"{text}; {goodput.repeats_of_discarded:,} for candidates that were not kept"
        if goodput.repeats_of_discarded
        else text
    )


def _slots_text(goodput: Goodput) -> str:
    """`trial slots were busy 93 % of the time, model slots 88 %`, where a model proposes."""
    if goodput.model_slots_busy is None or goodput.trial_slots_busy is None:
        return ""
    trials, models = goodput.trial_slots_busy, goodput.model_slots_busy
    return f"trial slots were busy {100 * trials:.0f} % of the time, model slots {100 * models:.0f} %"


def _share_text(seconds: float, total: float) -> str:
    return f"{100 * seconds / total if total else 0:.0f} %"
