"""Runs a gate of a trial: it passes with exit code 0 and reports nothing else."""

from __future__ import annotations

import asyncio
import hashlib
import re

from loopty.domain.benchmark_spec import Benchmark
from loopty.domain.gate_spec import Gate
from loopty.domain.launch import Stop
from loopty.engine.protocols import Stage, Trial
from loopty.evaluators import contract, harvest
from loopty.evaluators.benchmark_runner import BenchmarkRunner, Command
from loopty.evaluators.contract import SandboxPaths
from loopty.evaluators.harvest import PrintedError
from loopty.kit.records import Record


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
    """The name made safe for a file name, with a digest if that changes it."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:80]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
