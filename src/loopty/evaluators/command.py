"""Scores a node by running the task's gates and its benchmark command in the sandbox; keeps copies of what the
trial published.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.domain.benchmark import Benchmark, Gate, Limits, When, command_gates, metric_refusal
from loopty.domain.counting import CLOCK
from loopty.domain.launch import Exit, Mount, Sandbox, SandboxError, Stop, WarmProcessLost
from loopty.domain.objective import SCORE
from loopty.domain.trial import KNOWN_INPUTS, NOT_FROZEN, Ending, GateScope, Integrity, Outcome, Pool
from loopty.engine.protocols import MakeStage, OnMetrics, Stage, Trial
from loopty.evaluators import contract, harvest, steps
from loopty.evaluators.benchmark_runner import BenchmarkRunner, Command, FindTampering, TamperingFound
from loopty.evaluators.candidate_stillness import CandidateConduct
from loopty.evaluators.contract import SandboxPaths
from loopty.evaluators.harvest import PrintedError
from loopty.evaluators.metrics_watch import MetricsWatch
from loopty.evaluators.result import RESULT, ParsedResult, TrialOutput, choose_score, result_of_rows
from loopty.evaluators.result_formats import load_format
from loopty.evaluators.steps import BytecodeCompiler, CascadeClimb, GateResult, run_gate
from loopty.kit import untrusted_files
from loopty.kit.records import replace
from loopty.kit.safe_folder import SafeFolder, UnsafePath
from loopty.kit.untrusted_files import Unreadable

if TYPE_CHECKING:
    from loopty.evaluators.benchmark_runner import TreeCommand, TreeCommandEnd
    from loopty.evaluators.steps import FrozenSources, GateResult
    from loopty.evaluators.warm_commands import WarmCommands
    from loopty.models.trial_access import ServeTrial


_SMALL_RESULT = 64 << 10
RunGates = Callable[[Trial, asyncio.Event], Awaitable["list[GateResult]"]]
"""Runs every gate of a trial on its node."""
RunInTree = Callable[[Trial, "TreeCommand", asyncio.Event], Awaitable["TreeCommandEnd"]]
"""Runs any command on the files of a trial's node."""


class CommandEvaluator:
    """Stages a trial, runs gates and benchmark, watches its metrics, reads its result."""

    def __init__(
        self,
        benchmark: Benchmark,
        limits: Limits,
        sandbox: Sandbox,
        open_stage: MakeStage,
        find_tampering: FindTampering,
        paths: SandboxPaths,
        env: Mapping[str, str],
        mounts: Sequence[Mount],
        serve_model: ServeTrial | None = None,
        devices: Sequence[str] = (),
        python: str | None = None,
        frozen_sources: FrozenSources | None = None,
        warm: WarmCommands | None = None,
    ) -> None:
        """`serve_model` serves the user role's model to the benchmark's command; gates do not call models.

        `python` is the interpreter that the command names; it compiles the frozen sources before the first trial.
        `warm` starts commands as copies of a warm process.
        """
        self._benchmark = benchmark
        self._open_stage = open_stage
        self._paths = paths
        self._serve_model = serve_model
        self._runner = BenchmarkRunner(
            benchmark=benchmark,
            limits=limits,
            sandbox=sandbox,
            paths=paths,
            env=env,
            mounts=mounts,
            find_tampering=find_tampering,
            devices=devices,
            warm=warm,
        )
        self._compiler = None
        if python is not None and frozen_sources is not None:
            self._compiler = BytecodeCompiler(python, frozen_sources, self._runner, paths)

    async def evaluate(self, trial: Trial, on_metrics: OnMetrics, cancel: asyncio.Event) -> Outcome:
        """Run the trial to its end; anything that the candidate does becomes an Outcome.

        Raises Exhausted or Outage when the user role's model could not be paid or was unavailable.
        """
        await self._compile(trial, cancel)
        async with _in_thread(self._open_stage(trial)) as stage:
            try:
                outcome = await self._evaluate(trial, stage, on_metrics, cancel)
                if outcome.is_finished and stage.save_caches is not None:
                    await asyncio.to_thread(stage.save_caches)
            except TamperingFound as finding:
                outcome = Outcome(Ending.TAMPERED, reason=str(finding))
        integrity = self._runner.integrity if outcome.integrity is None else outcome.integrity
        return replace(outcome, unenforced=(*self._runner.unenforced, *outcome.unenforced), integrity=integrity)

    async def _compile(self, trial: Trial, cancel: asyncio.Event) -> None:
        """See to it that frozen files have byte code before anything of the trial runs."""
        if self._compiler is not None:
            await self._compiler.prepare(trial, _in_thread, cancel)

    async def run_gates(self, trial: Trial, cancel: asyncio.Event) -> list[GateResult]:
        """Run each gate on the node now; gates on metrics only if the node has metrics."""
        metrics = trial.node.outcome.metrics if trial.node.outcome else {}
        await self._compile(trial, cancel)
        async with _in_thread(self._open_stage(trial)) as stage:
            try:
                return [
                    await self._run_gate(gate, trial, stage, cancel)
                    if gate.command
                    else GateResult(gate, metric_refusal([gate], metrics))
                    for gate in trial.gates
                    if gate.command or metrics
                ]
            except TamperingFound as finding:
                raise SandboxError(str(finding)) from None

    async def run_in_tree(self, trial: Trial, command: TreeCommand, cancel: asyncio.Event) -> TreeCommandEnd:
        """Run any command on the node's files, as the candidate would run."""
        await self._compile(trial, cancel)
        async with _in_thread(self._open_stage(trial)) as stage:
            return await self._runner.run_in_tree(trial, stage, command, cancel)

    async def _evaluate(self, trial: Trial, stage: Stage, on_metrics: OnMetrics, cancel: asyncio.Event) -> Outcome:
        if refusal := await self._gate_refusal(When.BEFORE, trial, stage, cancel):
            return refusal
        climb = await self._climb_cascade(trial, stage, cancel)
        if climb.outcome is not None:
            return climb.outcome
        if climb.results or command_gates(trial.gates, When.BEFORE):
            # They run once per node: what the candidate left there would tell it that this is its first trial.
            await asyncio.to_thread(stage.empty_scratch)
        outcome = await self._run_benchmark(trial, stage, on_metrics, cancel)
        outcome = replace(outcome, seconds=round(outcome.seconds + climb.seconds, 6), cascade=climb.results)
        if not outcome.is_finished:
            return outcome
        # A bound on the score is one on the count, which a run by the clock does not have.
        gates = [gate for gate in trial.gates if gate.metric != SCORE or CLOCK not in outcome.metrics]
        if reason := metric_refusal(gates, outcome.metrics):
            return replace(outcome, ending=Ending.REFUSED, reason=reason)
        refusal = await self._gate_refusal(When.AFTER, trial, stage, cancel)
        if refusal and refusal.ending is Ending.REFUSED:
            lines, log = refusal.error_lines, refusal.log
            return replace(outcome, ending=Ending.REFUSED, reason=refusal.reason, error_lines=lines, log=log)
        return refusal or outcome

    async def _gate_refusal(self, when: When, trial: Trial, stage: Stage, cancel: asyncio.Event) -> Outcome | None:
        """Run the gates; return the outcome of the trial if one does not pass, else None."""
        seconds = 0.0
        for gate in command_gates(trial.gates, when):
            gate_result = await self._run_gate(gate, trial, stage, cancel)
            seconds += gate_result.seconds
            if gate_result.refusal:
                ending = Ending.CANCELLED if gate_result.stopped else Ending.REFUSED
                outcome = Outcome(ending, reason=gate_result.refusal, seconds=round(seconds, 6))
                return _with_lines(outcome, gate_result.printed)
        return None

    async def _run_gate(self, gate: Gate, trial: Trial, stage: Stage, cancel: asyncio.Event) -> GateResult:
        return await run_gate(
            gate=gate,
            trial=trial,
            stage=stage,
            runner=self._runner,
            benchmark=self._benchmark,
            paths=self._paths,
            cancel=cancel,
        )

    async def _climb_cascade(self, trial: Trial, stage: Stage, cancel: asyncio.Event) -> CascadeClimb:
        """Run the stages of the cascade on a trial that may be stopped there; others use the whole benchmark."""
        climb = CascadeClimb()
        if trial.pool.rules.gates is not GateScope.ALL:
            return climb
        for cheap in self._benchmark.cascade:
            folder = stage.folder.below(steps.folder_name(cheap))
            command = steps.stage_command(cheap, trial, folder, stage, self._benchmark, self._paths)
            own_stage = replace(stage, folder=folder.make(), keep=None)
            outcome = await self._run_command(trial, own_stage, command, steps.watch_nothing, cancel)
            # A result that stays would be the next command's.
            await asyncio.to_thread(stage.empty_outbox)
            await asyncio.to_thread(stage.empty_scratch)
            climb = climb.with_stage(cheap, outcome, is_baseline=trial.node.id == trial.root.id)
            if climb.outcome is not None:
                break
        return climb

    async def _run_benchmark(
        self, trial: Trial, stage: Stage, on_metrics: OnMetrics, cancel: asyncio.Event
    ) -> Outcome:
        command = Command(
            argv=self._benchmark.argv,
            seconds=self._benchmark.timeout_seconds,
            env=contract.benchmark_environment(trial, self._benchmark, self._paths),
            mounts=stage.mounts,
            stdout=stage.folder.file("stdout.log"),
            stderr=stage.folder.file("stderr.log"),
            may_be_warm=True,
        )
        if self._benchmark.is_counted:
            outcome = await self._measure_instructions(trial, stage, command, cancel)
            return await _with_artifacts(trial, stage, outcome)
        if self._serve_model is None:
            outcome = await self._run_command(trial, stage, command, on_metrics, cancel)
            return await _with_artifacts(trial, stage, outcome)
        from loopty.evaluators import model_access

        context = model_access.open_model_access(self._serve_model, trial, stage, command, self._paths)
        async with context as (command, access):
            outcome = await self._run_command(trial, stage, command, on_metrics, cancel)
        return await _with_artifacts(trial, stage, model_access.adjust_outcome(access, outcome))

    async def _measure_instructions(
        self, trial: Trial, stage: Stage, command: Command, cancel: asyncio.Event
    ) -> Outcome:
        """Count the instructions of the command; time it where fresh pairs confirm what was counted.

        Nothing is pruned: the curve of a benchmark says nothing about its count.
        """
        from loopty.evaluators import counting

        if trial.pool is Pool.CONFIRM:
            command = counting.timed(command, self._benchmark, self._paths)
            outcome = await self._run_command(trial, stage, command, steps.watch_nothing, cancel)
            return counting.with_cpu_time(stage, outcome, self._benchmark)
        async with counting.open_counter(stage, command, self._benchmark, self._paths) as (command, log):
            outcome = await self._run_command(trial, stage, command, steps.watch_nothing, cancel)
        return counting.with_count(trial, outcome, log, self._benchmark)

    async def _run_command(
        self, trial: Trial, stage: Stage, command: Command, on_metrics: OnMetrics, cancel: asyncio.Event
    ) -> Outcome:
        try:
            return await self._run_command_once(trial, stage, command, on_metrics, cancel)
        except WarmProcessLost:
            # Whoever killed it has not killed this trial: the command starts again, by itself.
            await asyncio.to_thread(stage.empty_outbox)
            await asyncio.to_thread(stage.empty_scratch)
            command = replace(command, may_be_warm=False)
            return await self._run_command_once(trial, stage, command, on_metrics, cancel)

    async def _run_command_once(
        self, trial: Trial, stage: Stage, command: Command, on_metrics: OnMetrics, cancel: asyncio.Event
    ) -> Outcome:
        watch = MetricsWatch(stage, on_metrics, self._benchmark.grace_seconds, cancel)
        async with watch.follow():
            end = await self._runner.run(trial, stage, command, watch.kill)
        watch.read_new()
        outcome = self._outcome(stage, watch, end.exit, command, cancel.is_set())
        outcome = replace(
            outcome,
            seconds=round(end.exit.seconds, 6),
            rows_left_out=watch.stream.rows_left_out,
            outside_cpu_seconds=round(end.conduct.outside_cpu_seconds, 6),
        )
        return _with_conduct(trial, outcome, end.conduct)

    def _outcome(self, stage: Stage, watch: MetricsWatch, end: Exit, command: Command, cancelled: bool) -> Outcome:
        metrics = watch.last_metrics
        directions = watch.stream.directions if metrics else {}
        if watch.prune_reason:
            return Outcome(Ending.PRUNED, metrics, directions, watch.prune_reason, step=watch.last_step)
        if end.stop is Stop.CANCELLED or (cancelled and end.stop is not None):
            return Outcome(Ending.CANCELLED, reason="stopped on request")
        logs = stage.folder.file("stdout.log"), stage.folder.file("stderr.log")
        if end.stop is not None:
            reason = self._runner.stop_reason(end.stop, command.seconds)
            outcome = Outcome(Ending.FAILED, reason=reason)
            if end.stop is Stop.TIME:
                outcome = Outcome(Ending.TIMED_OUT, metrics, directions, reason)
            return _with_lines(outcome, harvest.last_lines(*logs))
        if end.code != 0:
            printed = harvest.error_in_output(*logs)
            reason = f"exit code {end.code}" + (f": {printed.cause}" if printed.cause else "")
            return _with_lines(Outcome(Ending.FAILED, reason=reason), printed)
        try:
            parsed = self._result(stage, watch, command.needs_result)
        except Unreadable as error:
            return _with_lines(Outcome(Ending.FAILED, reason=str(error)), harvest.last_lines(*logs))
        return Outcome(Ending.FINISHED, parsed.metrics, {**watch.stream.directions, **parsed.directions})

    def _result(self, stage: Stage, watch: MetricsWatch, is_needed: bool) -> ParsedResult:
        """Read the result, else the last row of metrics; with both, the row's metrics come after the score."""
        if watch.fault:
            raise Unreadable(f"the metrics CSV {watch.fault}")
        row = dict(watch.last_metrics)
        result_format = load_format(self._benchmark.result)
        rows, key = self._benchmark.rows, self._benchmark.score_key
        parsed = result_format.read(TrialOutput(stage.outbox, stage.folder), "" if rows else key)
        if rows and parsed is not None:
            parsed = choose_score(result_of_rows(parsed, rows), key)
        if parsed is None:
            if row or not is_needed:
                return ParsedResult(row)
            raise Unreadable(result_format.missing)
        is_small = len(parsed.document) <= _SMALL_RESULT
        keep = stage.keep if stage.keep and is_small else stage.folder.write_files
        keep({RESULT: parsed.document})
        return ParsedResult({**parsed.metrics, **(row | parsed.metrics)}, parsed.directions)


def _with_conduct(trial: Trial, outcome: Outcome, conduct: CandidateConduct) -> Outcome:
    """Add to the outcome what an isolated candidate could have done, although it ran apart."""
    first, inputs = trial.root.outcome, conduct.timed_inputs
    is_known = bool(inputs) and first is not None and first.timed_inputs == inputs
    weak = (*(() if conduct.is_frozen else (NOT_FROZEN,)), *((KNOWN_INPUTS,) if is_known else ()))
    outcome = replace(outcome, timed_inputs=inputs)
    return replace(outcome, unenforced=weak, integrity=Integrity.WEAK) if weak else outcome


async def _with_artifacts(trial: Trial, stage: Stage, outcome: Outcome) -> Outcome:
    """Add to the outcome what a finished trial of the search published."""
    if not (outcome.is_finished and trial.pool.rules.searches):
        return outcome
    source, target = stage.outbox.below(ARTIFACTS), stage.folder.below(ARTIFACTS)
    if not has_artifacts(source):
        return outcome
    kept, left_out = await asyncio.to_thread(keep_artifacts, source, target)
    return replace(outcome, artifacts=kept, artifacts_left_out=left_out)


def _with_lines(outcome: Outcome, printed: PrintedError) -> Outcome:
    return replace(outcome, error_lines=printed.lines, log=printed.log)


@contextlib.asynccontextmanager
async def _in_thread(stage_context: AbstractContextManager[Stage]) -> AsyncIterator[Stage]:
    """Make and remove the stage in a thread, because git and the disk would block the event loop."""
    stage = await asyncio.to_thread(stage_context.__enter__)
    try:
        yield stage
    finally:
        await asyncio.to_thread(stage_context.__exit__, None, None, None)


ARTIFACTS = "artifacts"
MOST_FILES = 32
LARGEST_FILE = 8 << 20
LARGEST_TOTAL = 32 << 20
_MOST_LISTED = 1_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def has_artifacts(source: SafeFolder) -> bool:
    """Say whether a trial has put anything there that could be kept."""
    try:
        with source.handle() as folder, os.scandir(folder) as entries:
            return next(entries, None) is not None
    except (FileNotFoundError, PermissionError, UnsafePath):
        return False


def keep_artifacts(source: SafeFolder, target: SafeFolder) -> tuple[dict[str, str], int]:
    """Keep the artifacts of a trial, each under the SHA-256 of its content; their digests by name.

    Only regular files with plain names within the limits are kept; the second value counts the others. No link is
    followed.
    """
    with contextlib.ExitStack() as resources:
        try:
            folder = resources.enter_context(source.handle())
        except (FileNotFoundError, PermissionError, UnsafePath):
            return {}, 0
        return _keep(folder, target)


def _keep(folder: int, target: SafeFolder) -> tuple[dict[str, str], int]:
    kept: dict[str, str] = {}
    left_out, room = 0, LARGEST_TOTAL
    for name in _names(folder):
        content = None
        if len(kept) < MOST_FILES and _NAME.fullmatch(name):
            with contextlib.suppress(Unreadable):
                content = untrusted_files.content(Path(name), min(LARGEST_FILE, room), folder)
        if content is None:
            left_out += 1
            continue
        room -= len(content)
        kept[name] = hashlib.sha256(content).hexdigest()
        target.make().file(kept[name]).write(content)
    return kept, left_out


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry, _ in zip(entries, range(_MOST_LISTED), strict=False))
