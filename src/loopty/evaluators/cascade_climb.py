"""The stages of a cascade in a trial: what each runs, what it gave, and where the trial stops."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from loopty.domain.benchmark_spec import Benchmark
from loopty.domain.cascade_spec import CascadeStage, StageResult
from loopty.domain.curve import Row
from loopty.domain.objective import Directions
from loopty.domain.outcome import Ending, Outcome
from loopty.engine.protocols import Stage, Trial
from loopty.evaluators import contract
from loopty.evaluators.benchmark_runner import Command
from loopty.evaluators.contract import SandboxPaths
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
        """The same after one more stage, which ended like this.

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
    """The command of a stage; it sees what the benchmark sees, and may ask which stage it is."""
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
    """The folder of a stage's logs and result below the node's, with a digest where its name is no file name."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", stage.name)[:80]
    digest = "" if safe == stage.name else f"-{hashlib.sha256(stage.name.encode()).hexdigest()[:8]}"
    return f"cascade-{safe}{digest}"


def watch_nothing(_rows: Sequence[Row], _directions: Directions) -> str | None:
    """Stages are not pruned: their curves are not those of the benchmark."""
    return None
