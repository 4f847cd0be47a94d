"""Writes a draft as the task file of a repository, and runs its benchmark."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.campaign.explanations import known_cause
from loopty.campaign.measured_noise import MeasuredNoise
from loopty.causes.explanation import Explanation
from loopty.causes.missing_libraries import NO_TEST_RAN
from loopty.causes.test_counts import has_built_nothing, has_run_no_tests, is_only_usage
from loopty.domain.outcome import Outcome
from loopty.kit.records import Record, replace
from loopty.taskfile.task_draft import TaskDraft
from loopty.taskfile.template import write_task_file

if TYPE_CHECKING:
    from loopty.campaign.by_hand import CheckResult
    from loopty.campaign.campaign import Campaign

_NOISE_SECONDS = 30.0
_MOST_RUNS = 5
_FEWEST_RUNS = 3
_NOTHING_BUILT = "the command ended well, and nothing was compiled"
_ONLY_USAGE = "the command ended well, and only printed how it is used: give it its arguments, with --command"


class TimedCheck(Record):
    """A check, and how long it took."""

    result: CheckResult
    seconds: float

    @property
    def gate_seconds(self) -> float:
        """About how long the gates took."""
        return self.seconds - self.result.outcome.seconds


class DraftChecks:
    """Checks drafts in the repository around a folder."""

    def __init__(self, campaign: Callable[[], Campaign], path: Path, unsafe: bool) -> None:
        self._campaign = campaign
        self._path = path
        self._unsafe = unsafe

    def write(self, draft: TaskDraft) -> None:
        write_task_file(self._path, draft)
        self._campaign().trust(only_task_file=True)  # what the user has just written, the user allows

    def run(self, draft: TaskDraft) -> TimedCheck:
        """The check of a draft, which fails where it measured nothing."""
        started_at = time.monotonic()
        self.write(draft)
        check = self.run_again()
        seconds = time.monotonic() - started_at
        if check.problem is not None:
            return TimedCheck(check, seconds)
        if draft.times_the_tests and has_run_no_tests(check.output):
            cause = known_cause(self._path, NO_TEST_RAN, (), output=check.output)
            check = replace(check, problem=NO_TEST_RAN, explanation=Explanation((), "", cause))
        elif draft.last_resort and has_built_nothing(draft.command, check.output, _score(check)):
            check = replace(check, problem=_NOTHING_BUILT)
        elif draft.is_cpu_time and is_only_usage(check.output):
            check = replace(check, problem=_ONLY_USAGE)
        return TimedCheck(check, seconds)

    def run_again(self) -> CheckResult:
        """The check of the file as it is."""
        return self._campaign().check(unsafe=self._unsafe)

    def noise(self, draft: TaskDraft, first: CheckResult, seconds: float) -> MeasuredNoise | None:
        """The spread of a few more runs, as many as take half a minute, or these seconds where that is less.

        The gates have passed already.
        """
        budget = min(_NOISE_SECONDS, seconds)
        runs = min(_MOST_RUNS, 1 + int(budget / max(first.outcome.seconds, 0.001)))
        metric = next(iter(first.outcome.metrics))
        outcomes = [first.outcome]
        self.write(replace(draft, gates=()))
        try:
            for _ in range(runs - 1):
                outcome = self.run_again().outcome
                if not outcome.is_finished or metric not in outcome.metrics:
                    return None
                outcomes.append(outcome)
        finally:
            self.write(draft)
        if len(outcomes) < _FEWEST_RUNS:
            return None
        values = tuple(outcome.metrics[metric] for outcome in outcomes)
        return MeasuredNoise(metric, values, tuple(outcome.seconds for outcome in outcomes))

    def slow_run(self, draft: TaskDraft) -> Outcome:
        """A run of the benchmark at about a third of its speed, without gates."""
        command = f"python3 -m loopty_sdk.slow_down {shlex.quote(draft.command)}"
        self.write(replace(draft, gates=(), command=command))
        try:
            return self.run_again().outcome
        finally:
            self.write(draft)


def _score(check: CheckResult) -> float:
    return next(iter(check.outcome.metrics.values()))
