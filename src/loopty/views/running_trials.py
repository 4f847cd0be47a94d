"""The running trials of a run, and why one of them repeats a measurement."""

from __future__ import annotations

from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.kit.records import Record
from loopty.record.confirmations import Confirmation
from loopty.record.history import History
from loopty.record.node_record import Pairing
from loopty.record.run_record import Run
from loopty.record.trials import RunningTrial, Trials, trial_parts


class Repeat(Record):
    """The purpose of a repeated measurement."""

    subject: NodeId
    rival: NodeId | None
    """The incumbent that the subject is measured against, in turns; None if it is measured alone."""
    number: int
    """The number of the pair, or of the measurement if there is no incumbent."""
    subject_handle: int = 0
    rival_handle: int = 0


class RunningTrialRow(Record):
    """A running trial."""

    node: NodeId
    number: int
    pool: Pool
    age_seconds: float
    repeat: Repeat | None
    handle: int = 0


def running_trials(history: History, run: Run, now: float) -> tuple[RunningTrialRow, ...]:
    """In the order of the nodes they serve."""
    return tuple(_running_trial(history, name, trial, now) for name, trial in _trials_in_order(history, run))


def _trials_in_order(history: History, run: Run) -> list[tuple[str, RunningTrial]]:
    """Running trials by the node they serve, which keeps its place while it and the incumbent take turns."""
    return sorted(
        Trials.of(run).running.items(), key=lambda item: history[item[1].subject or trial_parts(item[0])[0]].order
    )


def _running_trial(history: History, name: str, trial: RunningTrial, now: float) -> RunningTrialRow:
    node, number = trial_parts(name)
    age, repeat = max(now - trial.since, 0.0), _repeat(history, trial)
    return RunningTrialRow(node, number, trial.pool, age, repeat, history.handle(node))


def _repeat(history: History, trial: RunningTrial) -> Repeat | None:
    if trial.subject is None or trial.pool is Pool.REVIEW:
        return None
    node, pairing = history[trial.subject], history[trial.subject].pairing
    if trial.pool is Pool.CONFIRM:
        known = Confirmation.of(history.runs[node.id.run])
        pairing = (known.pairing if known.node == node.id else None) or Pairing(history.runs[node.id.run].root)
    if pairing is None:
        return Repeat(node.id, None, len(node.samples) + 1, node.handle)
    incumbent = pairing.incumbent
    return Repeat(node.id, incumbent, len(pairing.pairs_so_far) + 1, node.handle, history.handle(incumbent))
