"""What the verifier did in a run, and how often it disagreed with the metric. O(1)."""

from __future__ import annotations

from loopty.domain.outcome import Ending
from loopty.domain.pool import Pool
from loopty.kit.records import Record
from loopty.record.reviews import Reviews
from loopty.record.run_record import Run
from loopty.record.trials import TrialCounts


class VerifierTotals(Record):
    """Counts of reviews."""

    passed: int
    """Winners by the metric that it accepted."""
    disagreements: int
    """Winners by the metric that it objected to."""
    rejected: int
    """How many of these were rejected because of its objection."""
    unreviewed: int
    """Winners that it could not be asked about, or for which it gave no usable answer."""

    @property
    def reviews(self) -> int:
        return self.passed + self.disagreements


def verifier_totals(run: Run) -> VerifierTotals | None:
    """The totals of a run; None if the verifier did nothing."""
    endings = TrialCounts.of(run, Pool.REVIEW).endings
    totals = VerifierTotals(
        endings.get(Ending.FINISHED, 0),
        endings.get(Ending.REFUSED, 0),
        Reviews.of(run, Pool.ATTEMPT).rejected_by_verifier,
        endings.get(Ending.FAILED, 0),
    )
    return totals if totals.reviews or totals.unreviewed else None
