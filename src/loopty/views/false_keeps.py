"""How many of the kept nodes are expected to be no better than what they replaced."""

from __future__ import annotations

import math

from loopty.domain.outcome import Verdict
from loopty.domain.pool import Pool
from loopty.kit.dataclass import dataclass
from loopty.record.history import History


@dataclass(frozen=True, slots=True)
class FalseKeeps:
    """What the error rate of each candidate means for the whole run."""

    kept: int
    """Nodes that were kept after a comparison in pairs."""
    compared: int
    """Nodes that were compared in pairs."""
    expected: float
    """At most so many of the kept ones are expected to be false: the sum of the error rates of all compared."""


def false_keeps(history: History, run: int) -> FalseKeeps:
    """The expected false keeps among the attempts of a run. Reads every node."""
    effects = [(node.effect, node.verdict) for node in history.nodes(run, Pool.ATTEMPT) if node.effect]
    kept = sum(verdict is Verdict.KEPT for _, verdict in effects)
    return FalseKeeps(kept, len(effects), min(kept, math.fsum(effect.error_rate for effect, _ in effects)))
