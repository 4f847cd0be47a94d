"""A task after its checks: what was proven, or the most promising of what failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loopty.campaign.first_result import COMBINED, score_name
from loopty.campaign.gate_changes import TaskChange
from loopty.campaign.measured_noise import MeasuredNoise
from loopty.domain.objective import SCORE
from loopty.domain.outcome import Ending
from loopty.domain.score_names import direction_of
from loopty.kit.records import Record
from loopty.taskfile.task_draft import TaskDraft

if TYPE_CHECKING:
    from loopty.campaign.by_hand import CheckResult


class ProvenTask(Record):
    """The draft after its checks, and what the last check gave."""

    draft: TaskDraft
    check: CheckResult
    changes: tuple[TaskChange, ...]
    noise: MeasuredNoise | None
    """None where the check failed, or where one run takes too long to repeat it."""
    instead_of: ProvenTask | None = None
    """The most promising of what failed before it; None where the first worked, and for a failure."""
    doubt: str = ""
    """Why the direction may be the wrong one, in words; empty where nothing speaks against it."""

    @property
    def direction(self) -> str:
        """Which values of the score are better."""
        return str(self.draft.metrics[0].direction) if self.draft.metrics else self.draft.direction

    @property
    def why_direction(self) -> str:
        """Why these values are better; empty where that is assumed."""
        draft = self.draft
        if why := draft.notes.get("direction"):
            return why
        if self.check.outcome.directions or draft.result not in ("file", "stdout"):
            return "the benchmark says so"
        name = score_name(draft, self.check.outcome)
        return f"the name {name.rpartition('.')[2]} says so" if direction_of(name) == self.direction else ""

    @property
    def score(self) -> tuple[str, float]:
        """What the benchmark calls its score, and its value."""
        metrics = self.check.outcome.metrics
        key = self.draft.metrics[0].name if self.draft.metrics else next(iter(metrics))
        name = score_name(self.draft, self.check.outcome)
        is_cpu = self.draft.is_cpu_time and name == SCORE
        return f"CPU seconds of {self._timed}" if is_cpu else name.removeprefix("metrics."), metrics[key]

    @property
    def _timed(self) -> str:
        return "the tests" if self.draft.times_the_tests else "the command"

    @property
    def other_numbers(self) -> tuple[str, ...]:
        """The names of the numbers that the benchmark reported beside its score."""
        name, value = self.score
        metrics = self.check.outcome.metrics
        same = {SCORE, name, f"metrics.{name}", self.draft.score_key}
        rest = [one for one in metrics if one not in same and not (one in COMBINED and metrics[one] == value)]
        return tuple(one.removeprefix("metrics.") for one in rest)

    @property
    def has_line(self) -> bool:
        """Whether the message about a failure has a line to paste."""
        cause = self.check.explanation.cause if self.check.explanation else None
        return cause is not None and bool(cause.shell or cause.settings)

    @property
    def lacks_something(self) -> bool:
        """Whether a benchmark failed for want of what its cause names: with that, it works."""
        cause = self.check.explanation.cause if self.check.explanation else None
        return self.draft.is_benchmark and cause is not None and not self.is_out_of_time

    @property
    def is_out_of_time(self) -> bool:
        return self.check.outcome.ending is Ending.TIMED_OUT


def most_promising(failed: Sequence[ProvenTask]) -> ProvenTask | None:
    """The failure that has a line to paste, or the first; None of none.

    A line that gives more time comes after one that names what is missing.
    """
    return min(failed, key=lambda proven: (not proven.has_line, proven.is_out_of_time), default=None)
