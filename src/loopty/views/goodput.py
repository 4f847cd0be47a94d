"""What a run's time and tokens came to: comparable results, and what was spent without one."""

from __future__ import annotations

from dataclasses import dataclass

from loopty.domain.outcome import Ending
from loopty.domain.pool import BUDGETED_POOLS, SEARCH_POOLS, Pool
from loopty.record.calls import Spend
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.proposals import Proposals
from loopty.record.run_record import Run
from loopty.record.trials import TrialCounts
from loopty.views.comparable import comparable_result, incumbents

_CAUSES = {
    Ending.FAILED: "failed",
    Ending.TIMED_OUT: "timed out",
    Ending.PRUNED: "pruned",
    Ending.REFUSED: "rejected by a gate",
    Ending.TAMPERED: "tampered",
    Ending.CANCELLED: "cancelled or lost",
}


@dataclass(frozen=True, slots=True)
class TrialCost:
    cause: str
    trials: int
    seconds: float
    """Of the trials, summed over all that ran at once."""


@dataclass(frozen=True, slots=True)
class Goodput:
    """A comparable result is a finished one of a node that was judged, under the run's present fingerprint."""

    results: int
    """The baseline not counted."""
    seconds: float
    """That were spent on the run."""
    per_hour: float | None
    per_million_tokens: float | None
    """None where no tokens were used."""
    busy_seconds: float
    """Of all trials of the search."""
    waste: tuple[TrialCost, ...]
    """Trials without a result, the most expensive cause first."""
    refused: int
    """Proposals that were not worth or not allowed a trial."""
    telling_noise: TrialCost
    """Measurements that told a difference from noise: no waste, but the price of being sure."""
    in_vain: int
    """How many of these were for candidates that were not kept, as far as they are remembered."""


def goodput(history: History, run: Run, seconds: float) -> Goodput:
    """`seconds` is the time spent on the run so far. Looks at every node."""
    nodes = [node for pool in SEARCH_POOLS for node in history.nodes(run.number, pool) if node.id.parent]
    results = sum(comparable_result(node, Cohorts.of(run).fingerprint) is not None for node in nodes)
    tokens = Spend.of(run).total_tokens
    kept = frozenset(
        node for fingerprint in Cohorts.of(run).noise for node in incumbents(history, run, fingerprint)
    )
    counts = [TrialCounts.of(run, pool) for pool in BUDGETED_POOLS]
    waste = [
        TrialCost(
            cause,
            sum(count.endings.get(ending, 0) for count in counts),
            sum(count.seconds.get(ending, 0.0) for count in counts),
        )
        for ending, cause in _CAUSES.items()
    ]
    repeats = TrialCounts.of(run, Pool.REPEAT)
    finished = repeats.endings.get(Ending.FINISHED, 0), repeats.seconds.get(Ending.FINISHED, 0.0)
    return Goodput(
        results,
        seconds,
        results * 3600 / seconds if seconds > 0 else None,
        results * 1e6 / tokens if tokens else None,
        sum(count.busy_seconds for count in counts),
        tuple(sorted((spent for spent in waste if spent.trials), key=lambda spent: -spent.seconds)),
        sum(Proposals.of(run, pool).refused for pool in BUDGETED_POOLS),
        TrialCost("telling noise", *finished),
        sum(_repeats(node) for node in nodes if node.id not in kept),
    )


def _repeats(node: Node) -> int:
    """What it cost to measure the node again, and its rival beside it."""
    return len(node.samples) - 1 + len(node.pairing.theirs) if node.pairing else 0
