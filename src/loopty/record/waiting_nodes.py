"""Which node comes next: one whose measurement was interrupted, or one that has had no trial."""

from __future__ import annotations

from loopty.domain.pool import Pool
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.proposals import Proposals
from loopty.record.trials import TrialCounts, Trials


def next_undecided(history: History, run: int, pool: Pool) -> Node | None:
    """The oldest node whose measurement was interrupted before its verdict; its trial is already paid for."""
    nodes = (history[node] for node in Trials.of(history.runs[run]).undecided if node.parent)
    return next((node for node in nodes if node.pool is pool and node.is_pending), None)


def next_pending(history: History, run: int, pool: Pool) -> Node | None:
    """The oldest node that still waits for its first trial."""
    found = history.runs[run]
    if TrialCounts.of(found, pool).started >= Proposals.of(found, pool).nodes:
        return None
    return next(history.waiting_nodes(run, pool), None)
