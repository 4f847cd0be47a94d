"""Writes a draft as the task file and measures it: result, cost, noise."""

from __future__ import annotations

import fcntl
import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from loopty.domain.errors import Misuse
from loopty.domain.objective import Direction
from loopty.domain.trial import Outcome
from loopty.evaluators.warm_commands import NOT_WARM
from loopty.features.setup.causes.builds import NO_TEST_RAN
from loopty.features.setup.causes.results import NO_RESULT, has_run_no_tests, is_only_usage
from loopty.features.setup.causes.this_host import known_cause
from loopty.features.setup.count_proof import prove_count
from loopty.features.setup.edited_tree import EditedTree, unless_stopped
from loopty.features.setup.pace import WarmProof, prove_warm, watch_processes
from loopty.features.setup.proven_task import CountProof, MeasuredNoise, ProvenTask
from loopty.features.setup.sensitivity import CheckCost, Sensitivity, SensitivityProof
from loopty.features.setup.task_draft import TaskDraft
from loopty.features.setup.template import write_task_file
from loopty.kit.process import at_work_end
from loopty.kit.records import Record, replace
from loopty.session.by_hand import CheckResult
from loopty.session.context import CampaignContext
from loopty.show.explanation import Explanation
from loopty.workspaces.state_folder import StateFolder


def lock_init(state: StateFolder) -> None:
    """Keep every other `init` of this repository out until this work or process ends. Raises Misuse."""
    state.prepare()
    descriptor = state.init_lock.open(os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        process = f" (process {holder})" if holder.isdecimal() else ""
        raise Misuse(
            f"another `loopty init` works in this repository{process}: wait until it ends, then try again"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    at_work_end(functools.partial(os.close, descriptor))


_NOISE_SECONDS = 30.0
_MOST_RUNS = 5
_FEWEST_RUNS = 3
_SHARE_OF_NOISE = 0.25
_RUNS_TO_WARM, _FEW_RUNS_TO_WARM = 5, 3
_SHORT_SECONDS = 3.0
_ONLY_USAGE = "the command ended well, and only printed how it is used: give it its arguments, with --command"


class TimedCheck(Record):
    """A check, and how long it took."""

    result: CheckResult
    seconds: float

    @property
    def gate_seconds(self) -> float:
        """Return about how long the gates took."""
        return self.seconds - self.result.outcome.seconds


class _Facade(Protocol):
    """What of the facade checks need."""

    @property
    def context(self) -> CampaignContext: ...

    def trust(self, only_task_file: bool = False) -> object: ...

    def check(self, node: str | None = None, unsafe: bool = False) -> CheckResult: ...


class DraftChecks:
    """Checks drafts in the repository around a folder."""

    def __init__(self, campaign: Callable[[], _Facade], path: Path, unsafe: bool) -> None:
        self._campaign = campaign
        self._path = path
        self._unsafe = unsafe

    def write(self, draft: TaskDraft) -> None:
        write_task_file(self._path, draft)
        self._campaign().trust(only_task_file=True)  # what the user has just written, the user allows

    def run(self, draft: TaskDraft) -> TimedCheck:
        """Check a draft; the check fails if it measured nothing."""
        started_at = time.monotonic()
        self.write(draft)
        check = self.run_again()
        seconds = time.monotonic() - started_at
        if check.problem is not None:
            return TimedCheck(_without_timing(draft, check), seconds)
        if draft.times_the_tests and has_run_no_tests(check.output):
            cause = known_cause(self._path, NO_TEST_RAN, (), output=check.output)
            check = replace(check, problem=NO_TEST_RAN, explanation=Explanation((), "", cause))
        elif draft.is_cpu_time and is_only_usage(check.output):
            check = replace(check, problem=_ONLY_USAGE)
        return TimedCheck(check, seconds)

    def run_again(self) -> CheckResult:
        """Check the file as it is."""
        return self._campaign().check(unsafe=self._unsafe)

    def noise(self, draft: TaskDraft, first: CheckResult, seconds: float) -> MeasuredNoise | None:
        """Measure the spread of as many more runs as take half a minute, or two; None if those take too long.

        `seconds` are left for all that follows. The gates have passed already.
        """
        fewest = (_FEWEST_RUNS - 1) * first.outcome.seconds
        if fewest > seconds * _SHARE_OF_NOISE:
            return None
        budget = max(min(_NOISE_SECONDS, seconds), fewest)
        runs = min(_MOST_RUNS, 1 + int(budget / max(first.outcome.seconds, 0.001)))
        metric = next(iter(first.outcome.metrics))
        outcomes = [first.outcome]
        self.write(replace(draft, gates=()))
        try:
            with watch_processes() as used:
                for _ in range(runs - 1):
                    outcome = unless_stopped(self.run_again().outcome)
                    if not outcome.is_finished or metric not in outcome.metrics:
                        return None
                    outcomes.append(outcome)
        finally:
            self.write(draft)
        values = tuple(outcome.metrics[metric] for outcome in outcomes)
        return MeasuredNoise(metric, values, tuple(outcome.seconds for outcome in outcomes), used[0])

    def prove_warm(self, draft: TaskDraft, noise: MeasuredNoise) -> WarmProof:
        """Run the benchmark as copies of a warm process; the first run starts that."""
        said = list[str]()
        self.write(replace(draft, warm=True, gates=()))
        try:
            context = replace(self._campaign().context, say=said.append)
            runs = _RUNS_TO_WARM if min(noise.seconds) < _SHORT_SECONDS else _FEW_RUNS_TO_WARM
            outcomes = EditedTree(context, self._unsafe).runs(runs)
        finally:
            self.write(draft)
        why = next((line.split(": ", 1)[1].split(";")[0] for line in said if line.startswith(NOT_WARM)), "")
        return WarmProof(refusal=why) if why else prove_warm(noise, outcomes)

    def count(self, draft: TaskDraft, noise: MeasuredNoise, seconds: float) -> CountProof:
        """Score the draft by counted instructions, for so many seconds at most."""
        ends_at = time.monotonic() + seconds
        limit = max(draft.timeout_seconds, float(round(seconds)))
        counted = replace(draft, is_counted=True, gates=(), metrics=(), warm=False, timeout_seconds=limit)

        def open_tree(command: str) -> EditedTree:
            self.write(replace(counted, command=command))
            return EditedTree(self._campaign().context, self._unsafe)

        try:
            return prove_count(open_tree, draft.command, noise, lambda: ends_at - time.monotonic())
        except Misuse as refusal:
            return CountProof(refusal=str(refusal))
        finally:
            self.write(draft)

    def runs_together(self) -> list[Outcome]:
        """Run the benchmark twice at the same time."""
        return EditedTree(self._campaign().context, self._unsafe).runs_together(2)

    def sensitivity(self, proven: ProvenTask, cost: CheckCost, seconds: float) -> Sensitivity | None:
        """Plant changes into the files that candidates may change; None if they change none."""
        outcome, draft = proven.check.outcome, proven.draft
        tree = EditedTree(self._campaign().context, self._unsafe)
        if not tree.writable:
            return None
        metric = draft.metrics[0].name if draft.metrics else next(iter(outcome.metrics))
        noise = proven.noise
        proof = SensitivityProof(
            tree,
            usual=noise.values if noise else (outcome.metrics[metric],),
            metric=metric,
            label=proven.score[0],
            direction=Direction(proven.direction),
            is_speed=proven.is_speed,
            cost=cost,
            seconds=seconds,
        )
        return proof.prove()


def _without_timing(draft: TaskDraft, check: CheckResult) -> CheckResult:
    """Propose no CPU time as the score of what trains a model, or works for a fixed time."""
    explanation = check.explanation
    if not (explanation and explanation.cause and explanation.cause.name == NO_RESULT):
        return check
    if not (draft.trains or draft.has_fixed_time):
        return check
    sentence = (
        "the training printed no metric that is known"
        if draft.trains
        else "the benchmark works for a fixed time, so how long it takes says nothing, and it printed no rate"
    )
    cause = replace(explanation.cause, sentence=sentence, settings=())
    return replace(check, explanation=replace(explanation, cause=cause))
