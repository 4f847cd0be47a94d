"""Scores a node by running the task's gates and its benchmark command in the sandbox."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.domain.curve import Row
from loopty.domain.gate_spec import Gate, When, command_gates, metric_refusal
from loopty.domain.launch import Exit, Mount, Sandbox, SandboxError, Stop
from loopty.domain.objective import Directions
from loopty.domain.outcome import Ending, Outcome
from loopty.domain.task import Benchmark, Limits
from loopty.engine.protocols import MakeStage, OnMetrics, Stage, Trial
from loopty.evaluators import contract, gates, harvest, model_access, result
from loopty.evaluators.benchmark_runner import BenchmarkRunner, Command, FindTampering, TamperingFound
from loopty.evaluators.contract import METRICS, RESULT, SandboxPaths
from loopty.evaluators.gates import GateResult
from loopty.evaluators.metrics_csv import MetricsStream
from loopty.evaluators.metrics_watch import MetricsWatch
from loopty.kit import untrusted_files
from loopty.kit.untrusted_files import Unreadable

if TYPE_CHECKING:
    from loopty.models.endpoint.trial_access import ServeTrial

_READ_ONLY = "Read-only file system"
_NOT_THERE = ("No module named", "No such file or directory")

RunGates = Callable[[Trial, asyncio.Event], Awaitable[list[GateResult]]]
"""Tells what each gate of a trial says of its node."""


class CommandEvaluator:
    """Stages a trial, runs gates and benchmark, follows its metrics, reads its result."""

    def __init__(
        self,
        benchmark: Benchmark,
        limits: Limits,
        sandbox: Sandbox,
        staging: MakeStage,
        tampering: FindTampering,
        places: SandboxPaths,
        env: Mapping[str, str],
        mounts: Sequence[Mount],
        serve_model: ServeTrial | None = None,
    ) -> None:
        """`serving`: what serves the user role's model to the benchmark's command; gates do not call models."""
        self._benchmark = benchmark
        self._open_stage = staging
        self._paths = places
        self._serve_model = serve_model
        self._runner = BenchmarkRunner(benchmark, limits, sandbox, places, env, mounts, tampering)

    async def evaluate(self, trial: Trial, seen: OnMetrics, cancel: asyncio.Event) -> Outcome:
        """Run the trial to its end; whatever the candidate does is an Outcome.

        Raises Exhausted and Outage where it was the user role's model that could not be had.
        """
        async with _in_thread(self._open_stage(trial)) as stage:
            try:
                outcome = await self._evaluate(trial, stage, seen, cancel)
            except TamperingFound as finding:
                outcome = Outcome(Ending.TAMPERED, reason=str(finding))
        return replace(outcome, unenforced=self._runner.unenforced, integrity=self._runner.integrity)

    async def run_gates(self, trial: Trial, cancel: asyncio.Event) -> list[GateResult]:
        """What each gate says of the node now; bounds on metrics only where it has some."""
        metrics = trial.node.outcome.metrics if trial.node.outcome else {}
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

    async def _evaluate(self, trial: Trial, stage: Stage, seen: OnMetrics, cancel: asyncio.Event) -> Outcome:
        if refused := await self._gate_refusal(When.BEFORE, trial, stage, cancel):
            return refused
        outcome = await self._run_benchmark(trial, stage, seen, cancel)
        if not outcome.is_finished:
            return outcome
        if reason := metric_refusal(trial.gates, outcome.metrics):
            return replace(outcome, ending=Ending.REFUSED, reason=reason)
        refused = await self._gate_refusal(When.AFTER, trial, stage, cancel)
        if refused and refused.ending is Ending.REFUSED:
            return replace(outcome, ending=Ending.REFUSED, reason=refused.reason)
        return refused or outcome

    async def _gate_refusal(self, when: When, trial: Trial, stage: Stage, cancel: asyncio.Event) -> Outcome | None:
        """What the first gate that does not pass makes of the trial, or None."""
        seconds = 0.0
        for gate in command_gates(trial.gates, when):
            passage = await self._run_gate(gate, trial, stage, cancel)
            seconds += passage.seconds
            if passage.refusal:
                ending = Ending.CANCELLED if passage.stopped else Ending.REFUSED
                return Outcome(ending, reason=passage.refusal, seconds=round(seconds, 6))
        return None

    async def _run_gate(self, gate: Gate, trial: Trial, stage: Stage, cancel: asyncio.Event) -> GateResult:
        return await gates.run_gate(gate, trial, stage, self._runner, self._benchmark, self._paths, cancel)

    async def _run_benchmark(self, trial: Trial, stage: Stage, seen: OnMetrics, cancel: asyncio.Event) -> Outcome:
        command = Command(
            argv=self._benchmark.argv,
            seconds=self._benchmark.timeout_seconds,
            env=contract.benchmark_environment(trial, self._benchmark, self._paths),
            mounts=stage.mounts,
            stdout=stage.folder / "stdout.log",
            stderr=stage.folder / "stderr.log",
        )
        if self._serve_model is None:
            return await self._run_command(trial, stage, command, seen, cancel)
        async with model_access.open_model_access(self._serve_model, trial, stage, command, self._paths) as (
            reaching,
            door,
        ):
            outcome = await self._run_command(trial, stage, reaching, seen, cancel)
        return model_access.adjust_outcome(door, outcome)

    async def _run_command(
        self, trial: Trial, stage: Stage, command: Command, seen: OnMetrics, cancel: asyncio.Event
    ) -> Outcome:
        watch = MetricsWatch(stage, seen, self._benchmark.grace_seconds, cancel)
        following = asyncio.create_task(watch.follow())
        try:
            ended = await self._runner.run(trial, stage, command, watch.kill)
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
        watch.read_new()
        outcome = self._outcome(stage, watch, ended, cancel.is_set())
        return replace(outcome, seconds=round(ended.seconds, 6))

    def _outcome(self, stage: Stage, watch: MetricsWatch, ended: Exit, cancelled: bool) -> Outcome:
        partial = watch.partial
        directions = watch.stream.directions if partial else {}
        if watch.prune_reason:
            return Outcome(Ending.PRUNED, partial, directions, watch.prune_reason)
        if ended.stop is Stop.CANCELLED or (cancelled and ended.stop is not None):
            return Outcome(Ending.CANCELLED, reason="stopped on request")
        if ended.stop is not None:
            reason = self._runner.stop_reason(ended.stop, self._benchmark.timeout_seconds)
            if ended.stop is Stop.TIME:
                return Outcome(Ending.TIMED_OUT, partial, directions, reason)
            return Outcome(Ending.FAILED, reason=reason)
        if ended.code != 0:
            said = harvest.last_line(stage.folder / "stderr.log")
            hint = f" ({advice})" if (advice := self._advice(said)) else ""
            return Outcome(Ending.FAILED, reason=f"exit code {ended.code}" + (f": {said}{hint}" if said else ""))
        try:
            found = self._result(stage, watch)
        except Unreadable as error:
            return Outcome(Ending.FAILED, reason=str(error))
        return Outcome(Ending.FINISHED, found.metrics, {**watch.stream.directions, **found.directions})

    def _advice(self, said: str) -> str:
        """What to do about the last line of a benchmark that failed, where that shows."""
        if _READ_ONLY in said:
            return "name directories to write to under benchmark.scratch"
        if self._benchmark.isolated and any(words in said for words in _NOT_THERE):
            return (
                "an isolated benchmark sees its own files alone: name them in benchmark.files, "
                "and call the candidate with loopty_sdk.candidate"
            )
        return ""

    def _result(self, stage: Stage, watch: MetricsWatch) -> result.ParsedResult:
        """The result file, else the last row of the metrics; with both, the row's metrics come after the score."""
        if watch.fault:
            raise Unreadable(f"the metrics CSV {watch.fault}")
        row = dict(watch.partial)
        on_stdout = self._benchmark.result == "stdout"
        source = stage.folder / "stdout.log" if on_stdout else stage.outbox / RESULT
        try:
            raw = untrusted_files.content(source, result.LARGEST_RESULT)
            if raw is None:
                if row:
                    return result.ParsedResult(row)
                raise Unreadable("was not written, and neither was the metrics CSV")
            found = result.parse_result(raw)
        except Unreadable as error:
            raise Unreadable(f"{'stdout' if on_stdout else 'the result file'} {error}") from None
        harvest.write_copy(stage.folder / RESULT, raw)
        return result.ParsedResult({**found.metrics, **(row | found.metrics)}, found.directions)


@contextlib.asynccontextmanager
async def _in_thread(staging: AbstractContextManager[Stage]) -> AsyncIterator[Stage]:
    """The stage, made and taken down beside the event loop: git and the disk would hold it up."""
    stage = await asyncio.to_thread(staging.__enter__)
    try:
        yield stage
    finally:
        await asyncio.to_thread(staging.__exit__, None, None, None)


def read_curve(folder: Path) -> tuple[Sequence[Row], Directions]:
    """The learning curve in a node's folder."""
    stream = MetricsStream(folder / METRICS)
    with contextlib.suppress(Unreadable):
        stream.read_new()
    return stream.rows, stream.directions
