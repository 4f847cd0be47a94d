"""Figures that need every node of a run: counts of verdicts, and the uplift."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from loopty.domain.outcome import Verdict
from loopty.domain.pool import Pool
from loopty.record.history import History
from loopty.record.nodes import NodeCount
from loopty.views.false_keeps import FalseKeeps, false_keeps
from loopty.views.uplift import Uplift, uplift

_MOST_NODES = 2000


@dataclass(frozen=True, slots=True)
class Tally:
    """Verdicts counted by pool, and the uplift over the control."""

    verdicts: Mapping[Verdict, int]
    """Of attempts, without the baseline."""
    control_verdicts: Mapping[Verdict, int]
    over_control: Uplift | None
    false_keeps: FalseKeeps


def is_quick(history: History) -> bool:
    """Whether reading every node takes a negligible time."""
    return sum(NodeCount.of(run).nodes for run in history.runs.values()) <= _MOST_NODES


def tally(history: History, run: int) -> Tally:
    """The tally of a run. Reads every node."""
    return Tally(
        _verdicts(history, run, Pool.ATTEMPT),
        _verdicts(history, run, Pool.CONTROL),
        uplift(history, run),
        false_keeps(history, run),
    )


def _verdicts(history: History, run: int, pool: Pool) -> dict[Verdict, int]:
    counts = Counter(node.verdict for node in history.nodes(run, pool) if node.verdict and node.id.parent)
    return {verdict: counts[verdict] for verdict in Verdict if counts[verdict]}
