"""Proves a draft of a task: write it, run the check, read the cause of a failure, change the draft, try again."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.campaign.explanations import known_cause
from loopty.campaign.first_result import with_better_score, with_direction, with_timeout
from loopty.campaign.gate_changes import TaskChange, refusing_gate, with_less_gate, with_shorter_gate
from loopty.campaign.measured_noise import MeasuredNoise
from loopty.campaign.resource_probe import measure_profile
from loopty.causes.cause import Cause, Reach, Setting
from loopty.causes.explanation import Explanation
from loopty.causes.missing_libraries import NO_TEST_RAN
from loopty.causes.test_counts import has_built_nothing, has_run_no_tests, is_only_usage
from loopty.domain.access import TASK_FILE
from loopty.domain.outcome import Ending
from loopty.kit.dataclass import dataclass, replace
from loopty.taskfile.task_draft import TaskDraft
from loopty.taskfile.template import render_task_file

if TYPE_CHECKING:
    from loopty.campaign.by_hand import CheckResult
    from loopty.campaign.campaign import Campaign

_MOST_TRIES = 8
_MOST_DRAFTS = 6
_SEARCH_SECONDS = 240.0
"""After this time no other benchmark of the repository is tried."""
_NOISE_SECONDS = 30.0
_MOST_RUNS = 5
_LOWER_IS_BETTER = re.compile(r"time|second|latency|elapsed|duration|loss|error|\b[mun]?s\b|cost", re.IGNORECASE)

_NO_REMEDY = "out-of-time"
"""More time is the user's to give: a checked run that takes ten minutes would take hours."""

_NOTHING_BUILT = "the command ended well, and nothing was compiled"
_ONLY_USAGE = "the command ended well, and only printed how it is used: give it its arguments, with --command"

Consent = Callable[[Cause], bool]
"""Asks the user whether a remedy may be applied."""


@dataclass(frozen=True, slots=True)
class ProvenTask:
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


@dataclass(frozen=True, slots=True)
class RepairedDraft:
    """A draft after the remedies that were found, and its last check."""

    draft: TaskDraft
    check: CheckResult
    changes: tuple[TaskChange, ...]
    gate_seconds: float
    """About how long its gates took."""


class TaskProver:
    """Runs the checks of a draft in the repository around a folder."""

    def __init__(
        self,
        campaign: Callable[[], Campaign],
        path: Path,
        say: Callable[[str], None],
        consent: Consent,
        unsafe: bool,
        patience: float = 1.0,
    ) -> None:
        """`patience` is how many times longer than on an idle machine a run may take here, now."""
        self._campaign = campaign
        self._path = path
        self._say = say
        self._consent = consent
        self._unsafe = unsafe
        self._patience = patience

    def prove(self, draft: TaskDraft, fixed: frozenset[str]) -> ProvenTask:
        """Check the draft until it works or no remedy is left; the file then has what was found.

        `fixed` are the keys that the user gave: `timeout_seconds` and `direction` are not changed then.
        """
        changes: tuple[TaskChange, ...] = ()
        if draft.gates:
            # All tests for each remedy of the benchmark would take most of the time.
            alone = self._repair(replace(draft, gates=()), fixed)
            draft, changes = replace(alone.draft, gates=draft.gates), alone.changes
            if alone.check.problem is not None:
                return ProvenTask(draft, alone.check, changes, None)
        whole = self._repair(draft, fixed)
        draft, check, changes = whole.draft, whole.check, (*changes, *whole.changes)
        if check.problem is not None:
            return ProvenTask(draft, check, changes, None)
        if shorter := with_shorter_gate(draft, whole.gate_seconds, check.outcome.seconds):
            second = self._check(shorter[0])
            if second.problem is None:
                draft, check = shorter[0], second
                changes = (*changes, shorter[1])
                self._say(shorter[1].why)
        draft = with_direction(draft, check.outcome) if "direction" not in fixed else draft
        if "timeout_seconds" not in fixed:
            draft = with_timeout(draft, check.outcome.seconds)
        better = with_better_score(draft, check.outcome, self._patience)
        if better != draft:
            draft, check = better, self._check(better)
        self._write(draft)
        noise = self._noise(draft, check) if check.problem is None else None
        return ProvenTask(draft, check, changes, noise)

    def _repair(self, draft: TaskDraft, fixed: frozenset[str]) -> RepairedDraft:
        """Check the draft, and again with each remedy that is found."""
        changes: list[TaskChange] = []
        before_gate: dict[str, TaskDraft] = {}
        """The draft before anything was changed for a gate's sake."""
        check, gate_seconds = self._timed_check(draft)
        for _ in range(_MOST_TRIES):
            if check.problem is None or check.outcome.ending is Ending.CANCELLED:
                break
            if gate := refusing_gate(draft, check):
                before_gate.setdefault(gate.name, draft)
            if changed := self._with_remedy(draft, check, fixed):
                draft, change = changed
            elif gate and gate.is_proposed:
                draft, change = with_less_gate(before_gate.pop(gate.name), gate.name, check)
            else:
                break
            changes.append(change)
            self._say(f"{change.why}: trying again with {change.line}")
            check, gate_seconds = self._timed_check(draft)
        return RepairedDraft(draft, check, tuple(changes), gate_seconds)

    def prove_first(self, drafts: Sequence[TaskDraft], fixed: frozenset[str]) -> ProvenTask:
        """Prove the drafts in turn until one works; without one, the file has the most promising of them.

        What is a last resort comes last, and is tried however long the others took.
        """
        failed: list[ProvenTask] = []
        started_at = time.monotonic()
        usual = [draft for draft in drafts if not draft.last_resort][:_MOST_DRAFTS]
        for draft in (*usual, *(draft for draft in drafts if draft.last_resort)):
            is_longer = self._patience > 1 and "timeout_seconds" not in fixed
            if is_longer:
                draft = draft.with_patience(self._patience)
            if failed:
                has_time = time.monotonic() - started_at < _SEARCH_SECONDS * self._patience
                if not (has_time or draft.last_resort):
                    continue
                self._say(f"that failed ({failed[-1].check.problem}); {_next_words(draft)}")
            if failed and failed[-1].draft.writable_copy:
                draft = replace(draft, writable_copy=True)  # what the tests needed for the one, they need for all
            if failed and not failed[-1].draft.gates:
                # What did not pass on these files for the one will not for the others.
                draft = replace(draft, gates=tuple(gate for gate in draft.gates if not gate.is_proposed))
            limit = f"{draft.timeout_seconds:g} s ({'the machine is busy; ' if is_longer else ''}--timeout"
            self._say(f"checking for at most {limit}; Ctrl-C stops): {draft.command}")
            proven = self.prove(draft, fixed)
            if proven.check.problem is None or proven.check.outcome.ending is Ending.CANCELLED:
                return replace(proven, instead_of=_most_promising(failed) if draft.last_resort else None)
            failed.append(proven)
        best = _most_promising(failed) or failed[0]
        self._write(best.draft)
        return best

    def with_profile(self, proven: ProvenTask) -> ProvenTask:
        """The task with what a trial uses, where its checks pass."""
        profile = measure_profile(lambda: self._campaign().check(unsafe=self._unsafe))
        if profile is None:
            return proven
        draft = replace(proven.draft, profile=profile)
        self._write(draft)
        return replace(proven, draft=draft)

    def _timed_check(self, draft: TaskDraft) -> tuple[CheckResult, float]:
        """The check, and about how many seconds its gates took."""
        started_at = time.monotonic()
        check = self._check(draft)
        return check, time.monotonic() - started_at - check.outcome.seconds

    def _check(self, draft: TaskDraft) -> CheckResult:
        self._write(draft)
        check = self._campaign().check(unsafe=self._unsafe)
        if check.problem is None and draft.times_the_tests and has_run_no_tests(check.output):
            cause = known_cause(self._path, NO_TEST_RAN, (), output=check.output)
            return replace(check, problem=NO_TEST_RAN, explanation=Explanation((), "", cause))
        if check.problem is None and draft.last_resort and has_built_nothing(draft.command, check.output):
            return replace(check, problem=_NOTHING_BUILT)
        if check.problem is None and draft.is_cpu_time and is_only_usage(check.output):
            return replace(check, problem=_ONLY_USAGE)
        return check

    def _write(self, draft: TaskDraft) -> None:
        (self._path / TASK_FILE).write_text(render_task_file(draft))
        self._campaign().trust(only_task_file=True)  # what the user has just written, the user allows

    def _with_remedy(
        self, draft: TaskDraft, check: CheckResult, fixed: frozenset[str]
    ) -> tuple[TaskDraft, TaskChange] | None:
        """The draft with the remedy of a failed check, or None where there is none to apply."""
        cause = check.explanation.cause if check.explanation else None
        settings = (
            [item for item in cause.settings if item.key not in fixed or item.key == "command"] if cause else []
        )
        if cause and settings and cause.name != _NO_REMEDY and self._is_allowed(cause):
            changed = draft
            for setting in settings:
                changed = changed.with_setting(setting, cause.sentence)
            if "direction" not in fixed and _is_time(check, settings):
                changed = replace(changed, direction="min")
                changed = changed.with_note("direction", "what is printed looks like a time or a cost")
            has_progress = replace(changed, notes=draft.notes) != draft
            if has_progress and not _has_tried(draft, settings):
                return changed, TaskChange("; ".join(item.line for item in settings), cause.sentence)
        return None

    def _is_allowed(self, cause: Cause) -> bool:
        return (cause.reach is Reach.REPOSITORY and not cause.is_guess) or self._consent(cause)

    def _noise(self, draft: TaskDraft, first: CheckResult) -> MeasuredNoise | None:
        """The spread of a few more runs, as many as take half a minute; the gates have passed already."""
        runs = min(_MOST_RUNS, 1 + int(_NOISE_SECONDS / max(first.outcome.seconds, 0.001)))
        metric = next(iter(first.outcome.metrics))
        values = [first.outcome.metrics[metric]]
        self._write(replace(draft, gates=()))
        try:
            for _ in range(runs - 1):
                outcome = self._campaign().check(unsafe=self._unsafe).outcome
                if not outcome.is_finished or metric not in outcome.metrics:
                    return None
                values.append(outcome.metrics[metric])
        finally:
            self._write(draft)
        return MeasuredNoise(metric, tuple(values)) if len(values) > 2 else None


def _next_words(draft: TaskDraft) -> str:
    if draft.last_resort:
        return f"a last resort is left, {draft.last_resort}"
    return "trying the next that was found"


def _most_promising(failed: Sequence[ProvenTask]) -> ProvenTask | None:
    """The failure that has a line to paste, or the first that is no last resort, or the first; None of none."""
    ranked = sorted(failed, key=lambda proven: (bool(proven.draft.last_resort), not proven.has_line))
    return next(iter(ranked), None)


def _has_tried(draft: TaskDraft, settings: list[Setting]) -> bool:
    """Whether the same words were put before the command already: then they do not help."""
    before = {"command": draft.command, **{f"gates.{gate.name}": gate.command for gate in draft.gates}}
    for setting in settings:
        table = setting.table if setting.table.startswith("gates.") else setting.key
        if setting.key == "command" and (old := before.get(table)):
            added = str(setting.value).removesuffix(old)
            if added and added in old:
                return True
    return False


def _is_time(check: CheckResult, settings: list[Setting]) -> bool:
    """Whether a score that is read from the output now looks like one that should be low."""
    if not any(item.key == "result" and item.value == "stdout" for item in settings):
        return False  # a tool says itself which of its numbers should be low
    lines = check.outcome.error_lines
    return bool(lines and _LOWER_IS_BETTER.search(lines[-1]))
