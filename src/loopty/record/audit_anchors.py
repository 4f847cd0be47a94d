"""The family of audit anchors: which nodes' gains the held-out split refutes. No score of the split is in it."""

from __future__ import annotations

from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.kit.records import replace
from loopty.record.event import Event
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.run_record import RunPart
from loopty.record.trials import TrialEnded, Trials, trial_name


class AuditConcluded(Event):
    """What all audits of a run so far say about its gains, without a number."""

    run: int
    refuted: tuple[NodeId, ...]
    """Nodes that gain more in the search than an earlier one, and less on the split."""
    text: str
    """Since when gains do not carry over, as a sentence; empty while they do."""


class AuditAnchors(RunPart):
    """The newest conclusion."""

    refuted: tuple[NodeId, ...] = ()
    text: str = ""
    has_new_audit: bool = False
    """Whether an audit ended after it: the process that made it was killed before it could conclude."""


def _conclude(state: FoldState, event: AuditConcluded, _at: float) -> None:
    state.put_run(state.runs[event.run].with_part(AuditAnchors(event.refuted, event.text)))


def _end(state: FoldState, event: TrialEnded, _at: float) -> None:
    run = state.runs[event.node.run]
    if Trials.of(run).running[trial_name(event.node, event.number)].pool is Pool.AUDIT:
        state.put_run(run.with_part(replace(AuditAnchors.of(run), has_new_audit=True)))


FAMILY = Family((AuditConcluded,), {AuditConcluded: _conclude, TrialEnded: _end})
