"""What only a look at every node of a run tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from loopty.core.history import History
from loopty.core.outcome import Pool, Verdict
from loopty.views.uplift import Uplift, uplift

_MOST_NODES = 2000


@dataclass(frozen=True, slots=True)
class Tally:
    verdicts: Mapping[Verdict, int]
    """The baseline not counted."""
    over_control: Uplift | None


def quick(history: History) -> bool:
    """Whether a look at every node takes no time worth mentioning."""
    return sum(run.nodes for run in history.runs.values()) <= _MOST_NODES


def tally(history: History, run: int) -> Tally:
    nodes = (node for pool in (Pool.ATTEMPT, Pool.CONTROL) for node in history.nodes(run, pool))
    counts = Counter(node.verdict for node in nodes if node.verdict and node.id.parent)
    return Tally({verdict: counts[verdict] for verdict in Verdict if counts[verdict]}, uplift(history, run))
