"""Proves a draft of a task: write it, run the check, read the cause of a failure, change it, try again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from loopty.domain.objective import Direction
from loopty.domain.task_tables import ExclusiveUse, choose_round_size
from loopty.domain.trial import Ending
from loopty.executors.this_machine import this_capacity
from loopty.features.setup.count_proof import count_refusal, with_count
from loopty.features.setup.draft_checks import DraftChecks, TimedCheck
from loopty.features.setup.pace import WarmProof, is_same_beside, profile_of, warm_refusal
from loopty.features.setup.proven_task import (
    CountProof,
    ProvenTask,
    TaskChange,
    most_promising,
    refusing_gate,
    with_better_score,
    with_direction,
    with_less_gate,
    with_shorter_gate,
    with_timeout,
)
from loopty.features.setup.sensitivity import CheckCost
from loopty.features.setup.task_draft import TaskDraft
from loopty.kit.records import Record, replace
from loopty.show.explanation import Cause, Explanation, Reach, Setting

if TYPE_CHECKING:
    from loopty.session.by_hand import CheckResult


WITHIN_SECONDS = 600.0
_SHARE = 0.5
"""Of what is left, for the next check: the half that stays is for what is tried after it."""
_RESERVE_OF_PARTS = 0.2
"""Of all the time, kept for a part of the tests."""
_LEAST_SECONDS = 15.0
"""Nothing is tried for less."""


class CheckTime:
    """Shares the time out among the checks: what takes too long leaves enough for something smaller."""

    def __init__(self, seconds: float = WITHIN_SECONDS, now: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._now = now
        self._ends_at = now() + seconds
        self._has_parts = False

    def expect(self, has_parts: bool) -> None:
        """Keep some of the time for parts of the tests, where there are some."""
        self._has_parts = has_parts

    @property
    def left(self) -> float:
        return max(self._ends_at - self._now(), 0.0)

    def has_time_for(self, draft: TaskDraft) -> bool:
        return self._open_to(draft) >= min(_LEAST_SECONDS, self.seconds / 2)

    def limit(self, draft: TaskDraft, at_least: float = 0.0) -> float:
        """Compute the seconds that the draft's next check may take; `at_least` is what it is known to need."""
        free = self._open_to(draft)
        return max(min(max(_SHARE * free, at_least), free), min(_LEAST_SECONDS, self.seconds / 2))

    def _open_to(self, draft: TaskDraft) -> float:
        """Return the time that this draft and what comes after it may take."""
        reserve = _RESERVE_OF_PARTS if self._has_parts and not draft.is_part else 0.0
        return self.left - self.seconds * reserve


_MOST_DRAFTS = 9


class DraftQueue:
    """Drafts in the order in which they are tried: the most certain first."""

    def __init__(self, drafts: Sequence[TaskDraft]) -> None:
        self._drafts = list(drafts[:_MOST_DRAFTS])

    @property
    def has_parts(self) -> bool:
        """Say whether some of the tests can be run alone, without a build."""
        return any(draft.is_part and not draft.has_build for draft in self._drafts)

    @property
    def has_smaller(self) -> bool:
        """Say whether something is left that measures less."""
        return any(draft.is_part or draft.is_shorter for draft in self._drafts)

    def next(self, failed: ProvenTask | None) -> TaskDraft | None:
        """Return the next draft, or None; `failed` is the last that did not work."""
        if failed and failed.is_out_of_time:
            self._prefer_parts(failed.draft)
        elif failed:  # what fails fails in a shorter time, too
            self._drafts = [draft for draft in self._drafts if not draft.is_shorter]
        if not self._drafts:
            return None
        draft = self._drafts.pop(0)
        return _with_what_others_needed(draft, failed.draft) if failed else draft

    def _prefer_parts(self, slow: TaskDraft) -> None:
        """Prefer what builds or tests less: another way to build all of it takes as long."""
        if slow.has_build:
            self._drafts = [
                draft for draft in self._drafts if draft.is_part or draft.is_shorter or not draft.has_build
            ]
        self._drafts.sort(key=lambda draft: not (draft.is_part or draft.is_shorter))


def _with_what_others_needed(draft: TaskDraft, failed: TaskDraft) -> TaskDraft:
    if failed.writable_copy:
        draft = replace(draft, writable_copy=True)  # what the tests needed for the one, they need for all
    if not failed.gates:
        # What did not pass on these files for the one will not for the others.
        draft = replace(draft, gates=tuple(gate for gate in draft.gates if not gate.is_proposed))
    return draft


Consent = Callable[[Cause], bool]
"""Asks the user whether a remedy may be applied."""

OUT_OF_TIME = "out-of-time"
"""A cause without a remedy here: more time is the user's to give."""


def draft_with_remedy(
    draft: TaskDraft, check: CheckResult, fixed: frozenset[str], consent: Consent
) -> tuple[TaskDraft, TaskChange] | None:
    """Apply the remedy of a failed check to the draft; None if there is none to apply."""
    cause = check.explanation.cause if check.explanation else None
    settings = [item for item in cause.settings if item.key not in fixed or item.key == "command"] if cause else []
    if not (cause and settings) or cause.name == OUT_OF_TIME or not _is_allowed(cause, consent):
        return None
    changed = draft
    for setting in settings:
        changed = changed.with_setting(setting, cause.sentence)
    has_progress = replace(changed, notes=draft.notes) != draft
    if not has_progress or _has_tried(draft, settings):
        return None
    return changed, TaskChange("; ".join(item.line for item in settings), cause.sentence)


def _is_allowed(cause: Cause, consent: Consent) -> bool:
    # By itself it applies what stays in the repository; it opens neither files nor the network unasked.
    return (cause.reach is Reach.REPOSITORY and not cause.is_guess) or consent(cause)


def _has_tried(draft: TaskDraft, settings: list[Setting]) -> bool:
    """Say whether the same words were put before the command already: then they do not help."""
    before = {"command": draft.command, **{f"gates.{gate.name}": gate.command for gate in draft.gates}}
    for setting in settings:
        table = setting.table if setting.table.startswith("gates.") else setting.key
        if setting.key == "command" and (old := before.get(table)):
            added = str(setting.value).removesuffix(old)
            if added and added in old:
                return True
    return False


_MOST_TRIES = 8
_MOST_SCORES = 2
_AS_BEFORE = 1.2
"""A check with a remedy may take so many times as long as the one before."""
_MORE_TIME = 3
_PROOF_SECONDS = 90.0
_RUNS_OF_PROOF = 12
"""The proof may take so many runs, where they are longer than that time."""
_RUNS_OF_WARM_PROOF = 4
_TIMEOUT = "timeout_seconds"
_DIRECTION = "direction"


class RepairedDraft(Record):
    """A draft after the remedies that were found, and its last check."""

    draft: TaskDraft
    last: TimedCheck
    changes: tuple[TaskChange, ...]

    @property
    def check(self) -> CheckResult:
        return self.last.result


class TaskProver:
    """Tries drafts of a task until one works, within a time."""

    def __init__(
        self,
        checks: DraftChecks,
        say: Callable[[str], None],
        consent: Consent,
        within: CheckTime | None = None,
        retry_line: str = "loopty init --yes --force",
        proves: bool = True,
        limit_option: str = "--timeout",
    ) -> None:
        """`retry_line` starts over; with more time, where that was missing.

        `proves` plants changes into the files. `limit_option` sets a trial's limit; empty if none does.
        """
        self._proves = proves
        self._checks = checks
        self._say = say
        self._consent = consent
        self._time = within or CheckTime()
        self._retry_line = retry_line
        self._limit_option = limit_option

    def prove_first(self, drafts: Sequence[TaskDraft], fixed: frozenset[str]) -> ProvenTask:
        """Prove the drafts in turn until one works; without one, the file has the most promising of them.

        The task says which benchmark it replaces, and what that lacks. `fixed` are the keys that the user gave:
        `timeout_seconds` and `direction` are not changed then.
        """
        failed: list[ProvenTask] = []
        queue = DraftQueue(drafts)
        self._time.expect(queue.has_parts)
        while draft := queue.next(failed[-1] if failed else None):
            if failed:
                if not self._time.has_time_for(draft):
                    continue
                self._say(f"not that ({failed[-1].problem}); trying the next that was found")
            self._say_start(draft, fixed)
            proven = self.prove(draft, fixed, has_smaller=queue.has_smaller)
            if not proven.problem:
                proven = self._with_width(self._with_count(self._with_pace(proven), fixed))
            if not proven.problem or proven.check.outcome.ending is Ending.CANCELLED:
                return replace(proven, instead_of=most_promising(failed))
            failed.append(proven)
            if _DIRECTION in fixed and proven.sensitivity and proven.sensitivity.better:
                break  # another benchmark does not mend what the user said
        best = most_promising(failed)
        assert best is not None, "the first draft is always tried"
        self._checks.write(best.draft)
        return best

    def prove(self, draft: TaskDraft, fixed: frozenset[str], has_smaller: bool = False) -> ProvenTask:
        """Check the draft until it works or no remedy is left; the file then has what was found.

        If `has_smaller`, something that measures less takes its place where there is no time to prove this one.
        """
        changes: tuple[TaskChange, ...] = ()
        alone: RepairedDraft | None = None
        if draft.gates:
            # All tests for each remedy of the benchmark would take most of the time.
            alone = self._repair(replace(draft, gates=()), fixed)
            draft, changes = replace(alone.draft, gates=draft.gates), alone.changes
            if alone.check.problem is not None:
                return ProvenTask(draft, self._with_line(alone.check, fixed), changes, None)
            if has_smaller and (problem := self._why_too_long(alone.check)):
                return ProvenTask(draft, replace(alone.check, problem=problem), changes, None, is_too_long=True)
        whole = self._repair(draft, fixed)
        if alone and whole.check.problem is not None and _has_only_proposed_gates(draft):
            whole = _without_gates(alone, whole)
        draft, check, changes = whole.draft, whole.check, (*changes, *whole.changes)
        if check.problem is not None:
            return ProvenTask(draft, self._with_line(check, fixed), changes, None)
        if has_smaller and (problem := self._why_too_long(check)):
            return ProvenTask(draft, replace(check, problem=problem), changes, None, is_too_long=True)
        draft, check, change = self._with_shorter_gate(draft, whole.last, fixed)
        changes = (*changes, *change)
        if _TIMEOUT not in fixed:
            draft = with_timeout(draft, check.outcome.seconds)
        draft, check = self._with_better_score(draft, check)
        draft = with_direction(draft, check.outcome, check.output) if _DIRECTION not in fixed else draft
        self._checks.write(draft)
        noise = self._checks.noise(draft, check, self._time.left) if check.problem is None else None
        gate_seconds = max(whole.last.gate_seconds, 0.0) if draft.gates else 0.0
        proven = ProvenTask(draft, check, changes, noise, gate_seconds=gate_seconds)
        return self._with_sensitivity(proven, fixed)

    def _why_too_long(self, check: CheckResult) -> str:
        """Say why there is no time to prove a benchmark that works; empty if there is."""
        seconds = check.outcome.seconds
        if not self._proves or _RUNS_OF_PROOF * seconds < self._time.left:
            return ""
        return f"a run takes {seconds:.2g} s, which leaves no time to prove it"

    def _with_better_score(self, draft: TaskDraft, check: CheckResult) -> tuple[TaskDraft, CheckResult]:
        """Return the draft with the score that says most, and its check: what is read, then which rows of it."""
        for _ in range(_MOST_SCORES):
            better = with_better_score(draft, check.outcome, check.output)
            again = self._checks.run(better).result if better != draft else check
            if again is check or again.problem is not None:
                break
            draft, check = better, again
        return draft, check

    def _with_sensitivity(self, proven: ProvenTask, fixed: frozenset[str]) -> ProvenTask:
        """Prove that the score is about the code that candidates may change; a delay also shows the direction."""
        if proven.check.problem is not None or not (proven.draft.write and self._proves):
            return proven
        run_seconds, gate_seconds = proven.check.outcome.seconds, proven.gate_seconds
        cost = CheckCost(run_seconds, gate_seconds)
        limit = max(_PROOF_SECONDS, _RUNS_OF_PROOF * (run_seconds + gate_seconds))
        self._say("planting a delay, a comment and faults in copies of the editable files")
        found = self._checks.sensitivity(proven, cost, min(self._time.left, limit))
        proven = replace(proven, sensitivity=found)
        if found is None or found.better is None:
            return proven
        slowed = found.slowed if found.slowed is not None else found.usual
        moved = f"{found.usual:.3g} to {slowed:.3g} with a planted delay"
        if _DIRECTION in fixed:
            problem = f"the score went from {moved}, so {found.better} is better, and not {proven.direction}"
            return replace(proven, sensitivity=replace(found, problem=problem))
        return self.with_direction(proven, str(found.better), f"it went from {moved}")

    def with_direction(self, proven: ProvenTask, direction: str, why: str = "you said so") -> ProvenTask:
        """Return the task with another direction."""
        metrics = tuple(replace(one, direction=Direction(direction)) for one in proven.draft.metrics)
        notes = {**proven.draft.notes, _DIRECTION: why}
        draft = replace(proven.draft, direction=direction, metrics=metrics, notes=notes)
        self._checks.write(draft)
        return replace(proven, draft=draft)

    def _with_pace(self, proven: ProvenTask) -> ProvenTask:
        """Say what a trial uses, and start it warm or beside others where that gives the same score."""
        noise, draft = proven.noise, proven.draft
        profile = profile_of(proven)
        if noise is None:
            return replace(proven, draft=replace(draft, profile=profile))
        seconds = max(noise.seconds)
        warm = WarmProof(refusal=warm_refusal(draft, noise))
        if not warm.refusal and self._time.left > _RUNS_OF_WARM_PROOF * seconds:
            warm = self._checks.prove_warm(draft, noise)
        elif not warm.refusal:
            warm = WarmProof(refusal="not tried, as there was no time left")
        why = warm.refusal or f"a run then takes 1/{warm.gain:.1f} of the time, and gives the same score"
        draft = replace(draft, warm=warm.gain > 1).with_note("warm", why)
        profile = replace(profile, seconds=round(profile.seconds / warm.gain, 3))
        self._checks.write(draft)
        is_tried = profile.steady and self._time.left > 3 * seconds
        if is_tried and not is_same_beside(noise, self._checks.runs_together()):
            profile = replace(profile, steady=False)
            draft = draft.with_note("profile", "two runs at once did not give the score that one gives alone")
        return replace(proven, draft=replace(draft, profile=profile))

    def _with_width(self, proven: ProvenTask) -> ProvenTask:
        """Say how many trials run at once here."""
        draft = proven.draft
        if draft.profile is None:
            return proven
        profile = replace(draft.profile, steady=draft.profile.steady or draft.is_counted)
        draft = replace(draft, width=choose_round_size(profile, this_capacity(), ExclusiveUse(draft.devices)))
        self._checks.write(draft)
        return replace(proven, draft=draft)

    def _with_count(self, proven: ProvenTask, fixed: frozenset[str]) -> ProvenTask:
        """Say whether counted instructions can choose in place of the clock; set it where the clock is noisy."""
        noise, draft = proven.noise, proven.draft
        if noise is None or not (proven.is_speed and self._proves and draft.write):
            return proven
        if refusal := count_refusal(draft, noise, self._time.left):
            return replace(proven, count=CountProof(refusal=refusal))
        self._say("counting instructions, twice and with a planted delay")
        found = self._checks.count(draft, noise, self._time.left)
        proven = replace(proven, count=found)
        if found.refusal:
            return proven
        draft = with_count(draft, found, noise, may_set=not fixed & {_DIRECTION, _TIMEOUT})
        self._checks.write(draft)
        return replace(proven, draft=draft, count=replace(found, is_better=draft.is_counted))

    def _repair(self, draft: TaskDraft, fixed: frozenset[str]) -> RepairedDraft:
        """Check the draft, and again with each remedy that is found."""
        changes: list[TaskChange] = []
        before_gate: dict[str, TaskDraft] = {}
        """The draft before anything was changed for a gate's sake."""
        last = self._checks.run(self._limited(draft, fixed))
        for _ in range(_MOST_TRIES):
            check = last.result
            if check.problem is None or check.outcome.ending is Ending.CANCELLED:
                break
            if gate := refusing_gate(draft, check):
                before_gate.setdefault(gate.name, draft)
            if changed := draft_with_remedy(draft, check, fixed, self._consent):
                changed_draft, change = changed
            elif gate and gate.is_proposed:
                changed_draft, change = with_less_gate(before_gate.pop(gate.name), gate.name, check)
            else:
                break
            if not self._time.has_time_for(draft):
                break
            draft = changed_draft
            changes.append(change)
            self._say(f"{change.why}: trying again with {change.line}")
            last = self._checks.run(self._limited(draft, fixed, _AS_BEFORE * last.seconds))
        return RepairedDraft(draft, last, tuple(changes))

    def _with_shorter_gate(
        self, draft: TaskDraft, last: TimedCheck, fixed: frozenset[str]
    ) -> tuple[TaskDraft, CheckResult, tuple[TaskChange, ...]]:
        """Return the draft, its check and the changes, with fewer tests as its gate if all take too long."""
        shorter = with_shorter_gate(draft, last.gate_seconds, last.result.outcome.seconds)
        if shorter is None or not self._time.has_time_for(draft):
            return draft, last.result, ()
        changed, change = shorter
        second = self._checks.run(self._limited(changed, fixed, last.seconds)).result
        if second.problem is not None:
            return draft, last.result, ()
        self._say(change.why)
        return changed, second, (change,)

    def _limited(self, draft: TaskDraft, fixed: frozenset[str], at_least: float = 0.0) -> TaskDraft:
        """Return the draft with the limit of its next check."""
        if _TIMEOUT in fixed:
            return draft
        limit = float(math.ceil(self._time.limit(draft, at_least)))
        gates = tuple(
            replace(gate, timeout_seconds=min(gate.timeout_seconds, limit)) if gate.is_proposed else gate
            for gate in draft.gates
        )
        return replace(draft, timeout_seconds=min(draft.timeout_seconds, limit), gates=gates)

    def _say_start(self, draft: TaskDraft, fixed: frozenset[str]) -> None:
        limited = self._limited(draft, fixed)
        option = "--within" if limited.timeout_seconds < draft.timeout_seconds else self._limit_option
        hints = "; ".join(filter(None, (option, "Ctrl-C stops")))
        self._say(f"checking for at most {limited.timeout_seconds:g} s ({hints}): {draft.command}")

    def _with_line(self, check: CheckResult, fixed: frozenset[str]) -> CheckResult:
        """Add to the failed check the line that starts over with what was missing: a device, or more time."""
        explanation = check.explanation or Explanation((), "")
        if (cause := explanation.cause) and (devices := _wanted_devices(cause)):
            line = " ".join((self._retry_line, *(f"--device {name}" for name in devices)))
            return replace(check, explanation=replace(explanation, cause=replace(cause, shell=line)))
        if check.outcome.ending is not Ending.TIMED_OUT or _TIMEOUT in fixed:
            return check
        minutes = math.ceil(_MORE_TIME * self._time.seconds / 60)
        cause = Cause(
            OUT_OF_TIME,
            "the check took longer than its share of the time that init has",
            shell=f"{self._retry_line} --within {minutes}m",
            advice="name a part of it with --command",
        )
        return replace(check, explanation=replace(explanation, cause=cause))


def _wanted_devices(cause: Cause) -> tuple[str, ...]:
    return next((one.value for one in cause.settings if one.key == "devices" and isinstance(one.value, tuple)), ())


def _has_only_proposed_gates(draft: TaskDraft) -> bool:
    return all(gate.is_proposed for gate in draft.gates)


def _without_gates(alone: RepairedDraft, whole: RepairedDraft) -> RepairedDraft:
    """Return the benchmark that works, without gates that could not be checked in the time."""
    draft = alone.draft
    for gate in whole.draft.gates:
        why = f"{gate.command} could not be checked in the time that init has, so it is no gate yet"
        draft = draft.with_note(f"gates.{gate.name}", why)
    return RepairedDraft(draft, alone.last, whole.changes)
