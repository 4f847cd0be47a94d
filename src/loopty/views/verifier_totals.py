"""What the verifier did in a run, and where it did not agree with the metric. O(1)."""

from __future__ import annotations

from dataclasses import dataclass

from loopty.domain.outcome import Ending, Pool
from loopty.record.records import Run


@dataclass(frozen=True, slots=True)
class Verified:
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
    def reviewed(self) -> int:
        return self.passed + self.disagreements


def verified(run: Run) -> Verified | None:
    """None where the verifier had nothing to say or to see."""
    endings, attempts = run.account(Pool.REVIEW).endings, run.account(Pool.ATTEMPT)
    found = Verified(
        endings.get(Ending.FINISHED, 0),
        endings.get(Ending.REFUSED, 0),
        attempts.vetoed,
        endings.get(Ending.FAILED, 0),
        attempts.screened,
    )
    return found if found.reviewed or found.unreviewed or found.screened else None
