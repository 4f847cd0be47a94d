"""A task after its checks: what was proven, or the most promising of what failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loopty.campaign.gate_changes import TaskChange
from loopty.campaign.measured_noise import MeasuredNoise
from loopty.domain.outcome import Ending
from loopty.kit.dataclass import Record, dataclass
from loopty.taskfile.task_draft import TaskDraft

if TYPE_CHECKING:
    from loopty.campaign.by_hand import CheckResult


@dataclass(frozen=True, slots=True)
class ProvenTask(Record):
    """The draft after its checks, and what the last check gave."""

    draft: TaskDraft
    check: CheckResult
    changes: tuple[TaskChange, ...]
    noise: MeasuredNoise | None
    """None where the check failed, or where one run takes too long to repeat it."""
    instead_of: ProvenTask | None = None
    """For a last resort: the most promising of what failed before; None where nothing else was found."""

    @property
    def has_direction(self) -> bool:
        """Whether the benchmark, its format or its output says which scores are better."""
        is_told = bool(self.check.outcome.directions) or "direction" in self.draft.notes
        return is_told or self.draft.direction == "min" or self.draft.result not in ("file", "stdout")

    @property
    def has_line(self) -> bool:
        """Whether the message about a failure has a line to paste."""
        cause = self.check.explanation.cause if self.check.explanation else None
        return cause is not None and bool(cause.shell or cause.settings)

    @property
    def is_out_of_time(self) -> bool:
        return self.check.outcome.ending is Ending.TIMED_OUT


def most_promising(failed: Sequence[ProvenTask]) -> ProvenTask | None:
    """The failure that has a line to paste, or the first that is no last resort, or the first; None of none.

    A line that gives more time comes after one that names what is missing.
    """
    ranked = sorted(
        failed, key=lambda proven: (bool(proven.draft.last_resort), not proven.has_line, proven.is_out_of_time)
    )
    return next(iter(ranked), None)
