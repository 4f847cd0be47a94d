"""How many of the kept nodes are expected to be no better than what they replaced."""

from __future__ import annotations

import math

from loopty.domain.outcome import Verdict
from loopty.domain.pool import Pool
from loopty.kit.records import Record
from loopty.record.history import History
from loopty.views.rated_nodes import RatedNodes, rated_nodes


class FalseKeeps(Record):
    """What the error rate of each candidate means for the whole run."""

    kept: int
    """Nodes that were kept after a comparison in pairs."""
    compared: int
    """Nodes that were compared in pairs."""
    expected: float
    """At most so many of the kept ones are expected to be false: the sum of the error rates of all compared."""


def false_keeps(history: History, run: int, rated: RatedNodes | None = None) -> FalseKeeps:
    """The expected false keeps among the attempts of a run; `rated` are its nodes, where they are known."""
    compared = [
        (node.error_rate, node.kind.verdict)
        for node in (rated or rated_nodes(history, run)).nodes
        if node.error_rate is not None and node.kind.pool is Pool.ATTEMPT
    ]
    kept = sum(verdict == Verdict.KEPT for _, verdict in compared)
    return FalseKeeps(kept, len(compared), min(kept, math.fsum(error_rate for error_rate, _ in compared)))
