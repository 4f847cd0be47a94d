"""What a run does now besides searching: it measures its baseline, or confirms its best node."""

from __future__ import annotations

from enum import StrEnum

from loopty.domain.pool import Pool
from loopty.domain.task import Noise
from loopty.kit.records import Record
from loopty.record.confirmations import Confirmation
from loopty.record.history import History
from loopty.record.run_record import Run
from loopty.record.samples import ENOUGH_TO_VARY
from loopty.record.trials import Trials


class PhaseName(StrEnum):
    BASELINE = "baseline"
    CONFIRMATION = "confirmation"


class RunPhase(Record):
    """A phase with a known number of steps."""

    name: PhaseName
    step: int
    """The measurement or pair under way, from 1."""
    steps: int | None
    """How many there will be, as far as it is known; None without the task."""


def run_phase(history: History, run: Run, noise: Noise | None) -> RunPhase | None:
    """The phase of a run; None while it searches, and where nothing runs."""
    running = Trials.of(run).running.values()
    confirms = next((trial.subject for trial in running if trial.pool is Pool.CONFIRM and trial.subject), None)
    if confirms:
        pairing = Confirmation.of(run).pairing
        done = len(pairing.pairs_so_far) if pairing and Confirmation.of(run).node == confirms else 0
        return RunPhase(PhaseName.CONFIRMATION, done + 1, max(noise.confirm, done + 1) if noise else None)
    root = history[run.root]
    if root.verdict is not None or not running:
        return None
    done = len(root.samples)
    varies = any(sample != root.samples[0] for sample in root.samples)
    steps = None
    if noise:
        steps = 1 if noise.repeat == "never" else noise.baseline if varies else ENOUGH_TO_VARY
    return RunPhase(PhaseName.BASELINE, done + 1, steps)
