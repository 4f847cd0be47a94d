"""How an incumbent loses its place, and what comes back then."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.domain.ids import NodeId
from loopty.domain.outcome import Verdict
from loopty.judge.pairs import MAX_FAULTS
from loopty.record.event import Event
from loopty.record.history import History
from loopty.record.verdicts import Incumbents, NodeJudged, NodeReopened


def unseat_failing_incumbent(history: History, subject: NodeId) -> Iterator[Event]:
    """The end of an incumbent that fails the repeats for this subject, and the return of what lost to it.

    Otherwise an incumbent that crashes whenever it is measured beside a rival could never be beaten.
    """
    node, run = history[subject], history.runs[subject.run]
    incumbent = Incumbents.of(run, node.pool).by_fingerprint.get(node.outcome.fingerprint if node.outcome else "")
    if incumbent is None or incumbent in (run.root, subject):
        return
    rival = history[incumbent]
    pairing = node.pairing if node.pairing and node.pairing.incumbent == incumbent else None
    if max(rival.faults_in_row, pairing.failures if pairing else 0) < MAX_FAULTS:
        return
    why = f"failed {MAX_FAULTS} measurements as the incumbent, the last beside {subject}"
    yield from unseat(history, incumbent, Verdict.DISCARDED, why)


def unseat(history: History, node: NodeId, verdict: Verdict, why: str) -> Iterator[Event]:
    """Another verdict about a kept node: the best is elected anew, and what lost only against it is open again."""
    yield NodeJudged(node, verdict, why, history[node].against)
    yield from reopen_losers(history, node, f"lost only against {node}, which {why}")


def reopen_losers(history: History, node: NodeId, reason: str) -> Iterator[Event]:
    """The return of what lost only against this node: one more judgement each, at most one per cause."""
    lost = (Verdict.DISCARDED, Verdict.INCONCLUSIVE)
    for other in list(history.nodes(node.run, history[node].pool)):
        has_result = other.outcome and other.outcome.is_finished and not other.fault
        may_return = has_result and not (other.withdrawn or other.files_removed) and node not in other.reopened_for
        if other.against == node and other.verdict in lost and may_return:
            yield NodeReopened(other.id, reason, node)
