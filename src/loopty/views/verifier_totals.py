"""What the verifier did in a run, and where it did not agree with the metric. O(1)."""

from __future__ import annotations

from dataclasses import dataclass

from loopty.domain.outcome import Ending
from loopty.domain.pool import Pool
from loopty.record.proposals import Proposals
from loopty.record.reviews import Reviews
from loopty.record.run_record import Run
from loopty.record.trials import TrialCounts


@dataclass(frozen=True, slots=True)
class VerifierTotals:
    passed: int
    """Winners by the metric to which it had no objection."""
    disagreements: int
    """Winners by the metric to which it had one."""
    rejected: int
    """Of these, those that were rejected for it."""
    unreviewed: int
    """Winners of which it could not be asked, or gave no answer to go by."""
    screened: int
    """Proposals that got no trial because it advised against them."""

    @property
    def reviews(self) -> int:
        return self.passed + self.disagreements


def verifier_totals(run: Run) -> VerifierTotals | None:
    """None where the verifier had nothing to say or to see."""
    endings = TrialCounts.of(run, Pool.REVIEW).endings
    found = VerifierTotals(
        endings.get(Ending.FINISHED, 0),
        endings.get(Ending.REFUSED, 0),
        Reviews.of(run, Pool.ATTEMPT).rejected_by_verifier,
        endings.get(Ending.FAILED, 0),
        Proposals.of(run, Pool.ATTEMPT).screened,
    )
    return found if found.reviews or found.unreviewed or found.screened else None
