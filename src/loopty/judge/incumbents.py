"""How an incumbent that fails loses its place."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.domain.ids import NodeId
from loopty.domain.outcome import Verdict
from loopty.judge.pairs import MAX_FAULTS
from loopty.judge.withdrawals import withdraw
from loopty.record.event import Event
from loopty.record.history import History
from loopty.record.verdicts import Incumbents, VerdictWithdrawn


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
    why = f"failed {MAX_FAULTS} measurements as the incumbent, the last beside {node.name}"
    yield from withdraw(history, [VerdictWithdrawn(incumbent, Verdict.DISCARDED, why)])
