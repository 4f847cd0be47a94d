"""The steps of a trial beside its benchmark: byte code compiled before the first, the stages of a cascade, the
gates.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol

from loopty.domain.benchmark import Benchmark, CascadeStage, Gate, StageResult
from loopty.domain.launch import Stop
from loopty.domain.objective import Directions
from loopty.domain.trial import Ending, Outcome, Row
from loopty.engine.protocols import Stage, Trial
from loopty.evaluators import contract, harvest
from loopty.evaluators.benchmark_runner import BenchmarkRunner, Command
from loopty.evaluators.contract import SandboxPaths
from loopty.evaluators.harvest import PrintedError
from loopty.kit.records import Record, replace
from loopty.kit.safe_folder import SafeFolder


class CascadeClimb(Record):
    """How far a trial got: the stages that ran, and its outcome where it does not go on to the benchmark."""

    results: tuple[StageResult, ...] = ()
    outcome: Outcome | None = None

    @property
    def seconds(self) -> float:
        return sum(result.seconds for result in self.results)

    def with_stage(self, stage: CascadeStage, outcome: Outcome, is_baseline: bool) -> CascadeClimb:
        """Add one more stage, which ended like this.

        A baseline goes on whatever its value is, unless the stage failed: the others are compared with it.
        """
        value = outcome.metrics.get(stage.metric) if outcome.is_finished else None
        results = (*self.results, StageResult(stage.name, value, outcome.seconds))
        climb = CascadeClimb(results)
        if not outcome.is_finished:
            log = f"{folder_name(stage)}/{outcome.log}" if outcome.log else ""
            reason = f"stage {stage.name}: {outcome.reason}"
            end = replace(outcome, reason=reason, log=log, metrics={}, directions={}, step=None)
        elif value is None or not is_baseline:
            refusal = stage.refusal(outcome.metrics)
            if refusal is None:
                return climb
            ending = Ending.FAILED if value is None else Ending.STOPPED
            end = replace(outcome, ending=ending, reason=refusal, metrics={}, directions={})
        else:
            return climb
        return CascadeClimb(results, replace(end, seconds=round(climb.seconds, 6), cascade=results))


def stage_command(
    cheap: CascadeStage,
    trial: Trial,
    folder: SafeFolder,
    stage: Stage,
    benchmark: Benchmark,
    paths: SandboxPaths,
) -> Command:
    """Make the command of a stage; it sees what the benchmark sees, and may ask which stage it is."""
    return Command(
        argv=cheap.argv,
        seconds=cheap.timeout_seconds,
        env={**contract.benchmark_environment(trial, benchmark, paths), "LOOPTY_CASCADE": cheap.name},
        mounts=stage.mounts,
        stdout=folder.file("stdout.log"),
        stderr=folder.file("stderr.log"),
        may_be_warm=True,
    )


def folder_name(stage: CascadeStage) -> str:
    """Name the folder of a stage's logs and result below the node's, with a digest if need be."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", stage.name)[:80]
    digest = "" if safe == stage.name else f"-{hashlib.sha256(stage.name.encode()).hexdigest()[:8]}"
    return f"cascade-{safe}{digest}"


def watch_nothing(_rows: Sequence[Row], _directions: Directions) -> str | None:
    """Stages are not pruned: their curves are not those of the benchmark."""
    return None


class GateResult(Record):
    """The result of a gate: `refusal` is None when the node passes."""

    gate: Gate
    refusal: str | None
    seconds: float = 0.0
    stopped: bool = False
    """Whether it was stopped on request and therefore has no result."""
    printed: PrintedError = PrintedError("", (), "")
    """What a command that did not pass printed about it."""


async def run_gate(
    gate: Gate,
    trial: Trial,
    stage: Stage,
    runner: BenchmarkRunner,
    benchmark: Benchmark,
    paths: SandboxPaths,
    cancel: asyncio.Event,
) -> GateResult:
    """Run the command of a gate."""
    log = f"gate-{_file_name(gate.name)}"
    command = Command(
        argv=gate.argv,
        seconds=gate.timeout_seconds,
        env=contract.gate_environment(trial, gate, benchmark, paths),
        # Without the outbox: candidate code that a gate runs could leave a result there before the benchmark does.
        mounts=tuple(mount for mount in stage.mounts if mount.source != stage.outbox.shown_path),
        stdout=stage.folder.file(f"{log}.stdout.log"),
        stderr=stage.folder.file(f"{log}.stderr.log"),
    )
    end = (await runner.run(trial, stage, command, cancel)).exit
    if end.stop is Stop.CANCELLED or (cancel.is_set() and end.stop is not None):
        return GateResult(gate, "stopped on request", end.seconds, stopped=True)
    if end.stop is not None:
        printed = harvest.last_lines(command.stdout, command.stderr)
        reason = runner.stop_reason(end.stop, gate.timeout_seconds)
    elif end.code != 0:
        printed = harvest.error_in_output(command.stdout, command.stderr)
        reason = f"exit code {end.code}" + (f": {printed.cause}" if printed.cause else "")
    else:
        return GateResult(gate, None, end.seconds)
    return GateResult(gate, f"gate {gate.name}: {reason}", end.seconds, printed=printed)


def _file_name(name: str) -> str:
    """Make the name safe for a file name, with a digest if that changes it."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:80]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


# The benchmark's own interpreter compiles them, in a sandbox that shows these files alone. Nothing of a candidate
# runs there: neither a candidate nor a trial can write byte code that another one loads.


_SECONDS = 60.0
_LIST, _OUT = "sources.list", "bytecode"

EnterStage = Callable[[AbstractContextManager[Stage]], AbstractAsyncContextManager[Stage]]


class FrozenSources(Protocol):
    """The files that no candidate can change, and where their byte code is kept."""

    def has_bytecode(self, trial: Trial) -> bool:
        """Say whether the files of the trial's baseline have byte code, or can have none."""
        ...

    def stage_of_sources(self, trial: Trial) -> AbstractContextManager[Stage]:
        """Open a stage that shows the files to compile, and nothing else of the repository."""
        ...

    def files_to_compile(self, trial: Trial) -> Mapping[str, Sequence[str]]:
        """List the files that an open stage shows, by the folder in which a trial sees them."""
        ...

    def save_bytecode(self, trial: Trial, compiled: SafeFolder) -> None:
        """Keep what the compiler wrote for these files, and show it to the next trials."""
        ...


class BytecodeCompiler:
    """Sees to it that no trial of a run starts before the byte code is there, so that all have the same start."""

    def __init__(self, python: str, sources: FrozenSources, runner: BenchmarkRunner, paths: SandboxPaths) -> None:
        """`python` is the interpreter as the benchmark's command names it."""
        self._python = python
        self._sources = sources
        self._runner = runner
        self._paths = paths
        self._lock = asyncio.Lock()
        self._tried: set[str] = set()
        """Commits whose files were compiled, or could not be: then each trial compiles for itself."""

    async def prepare(self, trial: Trial, enter: EnterStage, cancel: asyncio.Event) -> None:
        """Compile what has no byte code yet. Raises SandboxError when the sandbox failed."""
        commit = trial.root.commit
        async with self._lock:
            if commit in self._tried:
                return
            if not await asyncio.to_thread(self._sources.has_bytecode, trial):
                # On the baseline's files: a candidate may have changed what the command calls.
                trial = replace(trial, node=trial.root)
                async with enter(self._sources.stage_of_sources(trial)) as stage:
                    files = self._sources.files_to_compile(trial)
                    if await self._compile(trial, stage, files, cancel):
                        compiled = stage.outbox.below(_OUT)
                        await asyncio.to_thread(self._sources.save_bytecode, trial, compiled)
            if not cancel.is_set():
                self._tried.add(commit)

    async def _compile(
        self, trial: Trial, stage: Stage, files: Mapping[str, Sequence[str]], cancel: asyncio.Event
    ) -> bool:
        """Compile the files, and say whether all went through the compiler."""
        lines = (f"{number}/{name}\0" for number, names in enumerate(files.values()) for name in names)
        stage.inbox.file(_LIST).write(os.fsencode("".join(lines)))
        script, here = f"{self._paths.sdk}/compile_files.py", self._paths
        # Folders are arguments, because some back ends show them under other names.
        argv = (self._python, "-I", "-S", script, f"{here.inbox}/{_LIST}", f"{here.outbox}/{_OUT}", *files)
        logs = stage.folder.file("compiler-stdout.log"), stage.folder.file("compiler-stderr.log")
        try:
            command = Command(argv, _SECONDS, {}, stage.mounts, *logs)
            end = await self._runner.run(trial, stage, command, cancel)
        finally:
            for log in logs:
                log.remove()
        return end.exit.code == 0 and end.exit.stop is None
