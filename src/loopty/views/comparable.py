"""What may be compared with what: results under one fingerprint, never under two."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.domain.ids import NodeId
from loopty.domain.outcome import Pool, Verdict
from loopty.record.history import History
from loopty.record.records import Node, Result, Run

_UNRANKED = (None, Verdict.REJECTED, Verdict.QUARANTINED)


def comparable(node: Node, fingerprint: str) -> Result | None:
    """What a ranking under this fingerprint may use of a node: a finished result of one that was judged."""
    result = node.result(fingerprint)
    return result if result and result.outcome.is_finished and node.verdict not in _UNRANKED else None


def established(run: Run) -> bool:
    """Whether there is a baseline to compare with; before it no fingerprint is the run's."""
    return run.account(Pool.ATTEMPT).best is not None


def foreign(node: Node, run: Run) -> bool:
    """Whether the node has results, and none under the run's present fingerprint."""
    measured = node.outcome is not None and node.outcome.is_finished
    return established(run) and measured and node.result(run.fingerprint) is None


def score(history: History, node: Node, fingerprint: str) -> float | None:
    """The node's value of the most important metric under this fingerprint; missing is missing."""
    result, metrics = node.result(fingerprint), history.metrics(node)
    return result.outcome.metrics.get(metrics[0].name) if result and metrics else None


def incumbents(history: History, run: Run, fingerprint: str) -> Iterator[NodeId]:
    """The nodes that were kept under this fingerprint, newest first: each was judged against the one before it."""
    for pool in (Pool.ATTEMPT, Pool.CONTROL):
        node = run.account(pool).champions.get(fingerprint)
        while node:
            yield node
            node = history[node].against


def noisy(run: Run, fingerprint: str) -> bool:
    """Whether repeated measurements of one thing were seen to vary."""
    return any(run.floors.get(fingerprint, {}).values())


def sigma(run: Run, fingerprint: str, metric: str) -> float:
    """How much measurements of one thing vary, a standard deviation; 0 where that is not known."""
    return run.floors.get(fingerprint, {}).get(metric, 0.0)


def machine_words(run: Run, fingerprint: str) -> str:
    """The machine behind a fingerprint, by what is not the same on the run's present one."""
    if fingerprint == run.fingerprint:
        return "the present machine"
    there, here = run.machines.get(fingerprint, {}), run.machines.get(run.fingerprint, {})
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    differing = [f"{name} {there.get(name, 'unknown')}" for name in names]
    return ", ".join(differing) or f"fingerprint {fingerprint or 'unknown'}"
