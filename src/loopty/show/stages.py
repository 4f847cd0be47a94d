"""What cheaper measurements cost and save: the stages of a cascade, and the slice of tune mode."""

from __future__ import annotations

import math
from collections.abc import Sequence

from loopty.domain.trial import SEARCH_POOLS, Ending, Outcome, Pool
from loopty.kit.records import Record
from loopty.record.node_record import TunedParams
from loopty.record.run_record import Run
from loopty.record.trials import TrialCounts
from loopty.record.tunings import SliceRecord
from loopty.show.figures import duration, plural, three_digits
from loopty.show.terminal import printable_line

_FEWEST = 4
_NORMAL_QUANTILE = 1.645


class RankCorrelation(Record):
    """Spearman's coefficient with its 90 % interval."""

    value: float
    low: float
    high: float
    count: int


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> RankCorrelation | None:
    """Compute the rank correlation of these pairs; None for fewer than four, and if one side never varies."""
    if len(pairs) < _FEWEST:
        return None
    mine, theirs = _ranks([pair[0] for pair in pairs]), _ranks([pair[1] for pair in pairs])
    middle = (len(pairs) + 1) / 2
    spread = math.prod(sum((rank - middle) ** 2 for rank in ranks) for ranks in (mine, theirs))
    if not spread:
        return None
    shared = sum((one - middle) * (other - middle) for one, other in zip(mine, theirs, strict=True))
    value = shared / math.sqrt(spread)
    # Fisher's transformation; the factor is that of Bonett and Wright (2000) for ranks.
    near = math.atanh(max(min(value, 0.999999), -0.999999))
    error = _NORMAL_QUANTILE * math.sqrt((1 + value * value / 2) / (len(pairs) - 3))
    return RankCorrelation(value, math.tanh(near - error), math.tanh(near + error), len(pairs))


def _ranks(values: Sequence[float]) -> list[float]:
    """Return the place of each value from 1; equal values share the mean of their places."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        stop = start
        while stop < len(order) and values[order[stop]] == values[order[start]]:
            stop += 1
        for index in order[start:stop]:
            ranks[index] = (start + 1 + stop) / 2
        start = stop
    return ranks


class StageCost(Record):
    """One stage of the cascade: the trials that it ran in, those that it stopped, and the time that it took."""

    name: str
    trials: int
    stopped: int
    seconds: float
    saved_seconds: float | None
    """What its stopped trials would have taken longer, by the mean of finished ones; None if none has finished."""


def stage_costs(run: Run) -> tuple[StageCost, ...]:
    """Compute what each stage of the cascade cost and saved in the search."""
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


LARGEST_SHARE = 0.03
"""Of a trial's time. In simulations a slice of 3 % gains, one of 15 % does not (docs/research/search.md)."""
SMALLEST_CORRELATION = 0.5
_ENOUGH_NODES = 8
_ENOUGH_TRIALS = 4


class SliceValue(Record):
    """The slice that proposals are tuned on."""

    slice: str
    tuned: int
    """Nodes that were tuned on it."""
    moved: int
    """Those of them that got other parameters than they were proposed with."""
    trials: int
    """Tune trials that gave a score."""
    seconds: float
    """Of all tune trials."""
    share: float | None
    """The mean time of a tune trial as a share of an attempt's; None before both are known."""
    prediction: RankCorrelation | None
    """Between the score on the slice and the whole benchmark's, over nodes measured both ways."""
    advice: str
    """Why tune mode does not seem to pay here, and what to do; empty where nothing speaks against it."""


def slice_value(run: Run) -> SliceValue | None:
    """Return the value of the run's slice so far; None if nothing was tuned."""
    record = SliceRecord.of(run)
    if not record.slice:
        return None
    tunes, attempts = TrialCounts.of(run, Pool.TUNE), TrialCounts.of(run, Pool.ATTEMPT)
    trials = tunes.endings.get(Ending.FINISHED, 0)
    part, whole = _mean_seconds(tunes), _mean_seconds(attempts)
    share = part / whole if part is not None and whole else None
    prediction = rank_correlation(record.pairs)
    return SliceValue(
        slice=record.slice,
        tuned=record.tuned,
        moved=record.moved,
        trials=trials,
        seconds=tunes.busy_seconds,
        share=share,
        prediction=prediction,
        advice=_advice(share if trials >= _ENOUGH_TRIALS else None, prediction),
    )


def _mean_seconds(counts: TrialCounts) -> float | None:
    finished = counts.endings.get(Ending.FINISHED, 0)
    return counts.seconds.get(Ending.FINISHED, 0.0) / finished if finished else None


def _advice(share: float | None, prediction: RankCorrelation | None) -> str:
    reasons = []
    if share is not None and share > LARGEST_SHARE:
        cost, most = f"{100 * share:.0f} %", f"{100 * LARGEST_SHARE:.0f} %"
        reasons.append(f"a tune trial costs {cost} of a trial, and above {most} it rarely pays")
    if prediction and prediction.count >= _ENOUGH_NODES and prediction.value < SMALLEST_CORRELATION:
        reasons.append("the slice says little about the whole benchmark")
    if not reasons:
        return ""
    return f"{'; '.join(reasons)}: make the slice {_remedy(reasons)}, or remove [tune]"


def _remedy(reasons: list[str]) -> str:
    words = ["more like the whole" if reason.startswith("the slice") else "smaller" for reason in reasons]
    return " and ".join(words)


def stage_text(stage: StageCost) -> str:
    """`stage quick stopped 12 of 20 trials and took 3.1 s; about 2 min saved`."""
    text = f"stage {stage.name} stopped {stage.stopped:,} of {plural(stage.trials, 'trial')}"
    text += f" and took {duration(stage.seconds)}"
    return f"{text}; about {duration(stage.saved_seconds)} saved" if stage.saved_seconds else text


def climb_text(outcome: Outcome) -> str:
    """`quick 0.31 in 0.2 s, then half 0.4 in 3 s, which stopped it`."""
    values = ("no value" if result.value is None else f"{result.value:g}" for result in outcome.cascade)
    stages = [
        f"{result.name} {value} in {duration(result.seconds)}"
        for result, value in zip(outcome.cascade, values, strict=True)
    ]
    return ", then ".join(stages) + (", which stopped it" if outcome.ending is Ending.STOPPED else "")


def tuned_text(tuned: TunedParams) -> str:
    """`16 tune trials on slice dev: 0.61 as proposed, 0.72 as promoted (all 16 … were made)`."""
    text = f"{plural(tuned.trials, 'tune trial')} on slice {printable_line(tuned.slice)}"
    if tuned.proposed_score is not None:
        text += f": {three_digits(tuned.proposed_score)} as proposed"
    if tuned.score is not None and tuned.proposed_score is not None:
        is_same = tuned.score == tuned.proposed_score
        text += ", nothing better found" if is_same else f", {three_digits(tuned.score)} as promoted"
    return f"{text} ({tuned.reason})"


def slice_text(value: SliceValue) -> str:
    """`slice dev: 12 nodes tuned, 9 of them changed, in 190 tune trials and 3 min; …`."""
    text = f"slice {printable_line(value.slice)}: {plural(value.tuned, 'node')} tuned"
    text += f", {value.moved:,} of them changed"
    text += f", in {plural(value.trials, 'tune trial')} and {duration(value.seconds)}"
    if value.share is not None:
        text += f"; a tune trial costs {100 * value.share:.2g} % of a trial"
    if found := value.prediction:
        text += (
            f"; rank correlation with the whole benchmark {found.value:.2f} (90 % interval {found.low:.2f} to "
            f"{found.high:.2f}, {plural(found.count, 'node')})"
        )
    return text
