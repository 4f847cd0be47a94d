"""At the end of a run: the best node beside the baseline in fresh pairs, which is what the headline states."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.domain.ids import NodeId
from loopty.domain.objective import gain
from loopty.domain.outcome import Verdict
from loopty.domain.paired_estimate import paired_estimate
from loopty.domain.pool import Pool
from loopty.domain.task import Noise
from loopty.judge.pairs import MAX_FAULTS, coin
from loopty.judge.withdrawals import withdraw
from loopty.record.cohorts import Cohorts
from loopty.record.confirmations import Confirmation
from loopty.record.event import Event
from loopty.record.history import History
from loopty.record.node_record import Pairing
from loopty.record.run_record import Run
from loopty.record.trials import TrialCounts, TrialStarted
from loopty.record.verdicts import Incumbents, VerdictWithdrawn


def start_confirmation(history: History, run: int, owner: str, noise: Noise, pairs: int) -> Iterator[Event]:
    """The next measurement for the headline, until it rests on this many fresh pairs.

    A best node that fails here, or proves worse than the baseline, loses its place to the one before it.
    """
    while best := _best_to_confirm(history, history.runs[run], noise, pairs):
        pairing = _fresh_pairs(history.runs[run], best)
        if refutation := _refutation(history, pairing):
            yield from withdraw(history, [VerdictWithdrawn(best, Verdict.DISCARDED, refutation)])
            continue
        if (len(pairing.mine) >= pairs and len(pairing.theirs) >= pairs) or pairing.faults >= MAX_FAULTS:
            return
        node = _next_to_measure(history.runs[run], best, pairing)
        yield TrialStarted(node, history[node].trials + 1, Pool.CONFIRM, owner, best)
        return


def seconds_to_confirm(history: History, run: Run, noise: Noise) -> float:
    """The time that the confirmation at the end of the run will take, about."""
    best = _best_to_confirm(history, run, noise, noise.confirm)
    if best is None:
        return 0.0
    counts = [TrialCounts.of(run, pool) for pool in (Pool.ATTEMPT, Pool.REPEAT, Pool.CONFIRM)]
    ended = sum(sum(count.endings.values()) for count in counts)
    missing = max(noise.confirm - len(_fresh_pairs(run, best).pairs_so_far), 0)
    return 2 * missing * sum(count.busy_seconds for count in counts) / max(ended, 1)


def _best_to_confirm(history: History, run: Run, noise: Noise, pairs: int) -> NodeId | None:
    """The best node, where its gain over the baseline is to be confirmed: not where nothing varies."""
    best, fingerprint = Incumbents.of(run, Pool.ATTEMPT).best, Cohorts.of(run).fingerprint
    if noise.repeat == "never" or not pairs or best is None or best == run.root:
        return None
    mine, theirs = (history[node].result(fingerprint) for node in (best, run.root))
    if mine is None or theirs is None:
        return None
    metrics = history.counting_metrics(run.number)
    deciding = gain(mine.outcome.metrics, theirs.outcome.metrics, metrics).metric
    names = [metric.name for metric in ((deciding,) if deciding else metrics)]
    return best if any(is_varying(history, best, fingerprint, name) for name in names) else None


def is_varying(history: History, node: NodeId, fingerprint: str, metric: str) -> bool:
    """Whether measurements of the node or of the baseline vary in this metric."""
    run = history.runs[node.run]
    if Cohorts.of(run).noise.get(fingerprint, {}).get(metric):
        return True
    results = (history[other].result(fingerprint) for other in (node, run.root))
    return any(len({sample.get(metric) for sample in result.samples}) > 1 for result in results if result)


def _fresh_pairs(run: Run, best: NodeId) -> Pairing:
    return Confirmation.of(run).pairing_of(best, Cohorts.of(run).fingerprint) or Pairing(run.root)


def _refutation(history: History, pairing: Pairing) -> str:
    """Why the best node is not what it was kept for; empty where it may be."""
    if pairing.failures >= MAX_FAULTS:
        return f"failed {MAX_FAULTS} measurements beside the baseline"
    metrics = history.counting_metrics(pairing.incumbent.run)
    found = paired_estimate([gain(mine, theirs, metrics).amount for mine, theirs in pairing.pairs_so_far])
    if found and found.high < 0:
        return f"is worse than the baseline in {found.pairs} fresh pairs"
    return ""


def _next_to_measure(run: Run, best: NodeId, pairing: Pairing) -> NodeId:
    mine, theirs = len(pairing.mine), len(pairing.theirs)
    if mine != theirs:
        return best if mine < theirs else run.root
    return best if coin(run.secret or str(run.seed), "confirm", best, mine) else run.root
