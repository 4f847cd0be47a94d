"""Whether the search has found anything better than a past version."""

from __future__ import annotations

from loopty.domain.pool import Pool
from loopty.record.history import History
from loopty.record.run_record import Run
from loopty.record.verdicts import Incumbents, score_gain


def version_lead(history: History, run: Run) -> str:
    """Which past version the best node is not better than, as a sentence; empty where it is better than all."""
    best, version = (Incumbents.of(run, pool).best for pool in (Pool.ATTEMPT, Pool.VERSION))
    if best is None or version is None or version == run.root:
        return ""
    gain = score_gain(history, history[version], best)
    if gain is None or gain.amount < 0:
        return ""
    word = "worse than" if gain.amount > 0 else "no better than"
    scores = f"{gain.older:g} against {gain.score:g}"
    remedy = f"`loopty apply {history.name(version)}` takes that"
    return f"the best node, {history.name(best)}, is {word} {history[version].summary}: {scores}; {remedy}"
