"""What tune mode's slice costs, how well it predicts the whole benchmark, and whether it pays."""

from __future__ import annotations

from loopty.domain.outcome import Ending
from loopty.domain.pool import Pool
from loopty.domain.rank_correlation import RankCorrelation, rank_correlation
from loopty.kit.records import Record
from loopty.record.run_record import Run
from loopty.record.trials import TrialCounts
from loopty.record.tunings import SliceRecord

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
    """The value of the run's slice so far; None where nothing was tuned."""
    record = SliceRecord.of(run)
    if not record.slice:
        return None
    tunes, attempts = TrialCounts.of(run, Pool.TUNE), TrialCounts.of(run, Pool.ATTEMPT)
    trials = tunes.endings.get(Ending.FINISHED, 0)
    part, whole = _mean_seconds(tunes), _mean_seconds(attempts)
    share = part / whole if part is not None and whole else None
    prediction = rank_correlation(record.pairs)
    return SliceValue(
        record.slice,
        record.tuned,
        record.moved,
        trials,
        tunes.busy_seconds,
        share,
        prediction,
        _advice(share if trials >= _ENOUGH_TRIALS else None, prediction),
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
