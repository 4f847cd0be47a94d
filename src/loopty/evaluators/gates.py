"""Runs the gates of a trial: each passes with exit code 0, and has nothing else to say."""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import dataclass

from loopty.domain.gate_spec import Gate
from loopty.domain.launch import Stop
from loopty.domain.task import Benchmark
from loopty.engine.protocols import Stage, Trial
from loopty.evaluators import contract, harvest
from loopty.evaluators.benchmark_runner import BenchmarkRunner, Command
from loopty.evaluators.contract import SandboxPaths


@dataclass(frozen=True, slots=True)
class GateResult:
    """What a gate said: `refusal` is None when it lets the node pass."""

    gate: Gate
    refusal: str | None
    seconds: float = 0.0
    stopped: bool = False
    """Whether it was stopped on request, and so said nothing."""


async def run_gate(
    gate: Gate,
    trial: Trial,
    stage: Stage,
    bench: BenchmarkRunner,
    benchmark: Benchmark,
    places: SandboxPaths,
    cancel: asyncio.Event,
) -> GateResult:
    """Run the command of a gate."""
    log = stage.folder / f"gate-{_file_name(gate.name)}"
    command = Command(
        argv=gate.argv,
        seconds=gate.timeout_seconds,
        env=contract.gate_environment(trial, gate, benchmark, places),
        # Without the outbox: what a gate runs of the candidate could lay a result there before the benchmark does.
        mounts=tuple(mount for mount in stage.mounts if mount.source != stage.outbox),
        stdout=log.with_name(f"{log.name}.stdout.log"),
        stderr=log.with_name(f"{log.name}.stderr.log"),
    )
    ended = await bench.run(trial, stage, command, cancel)
    if ended.stop is Stop.CANCELLED or (cancel.is_set() and ended.stop is not None):
        return GateResult(gate, "stopped on request", ended.seconds, stopped=True)
    if ended.stop is not None:
        reason = bench.stop_reason(ended.stop, gate.timeout_seconds)
    elif ended.code != 0:
        said = harvest.last_line(command.stderr)
        reason = f"exit code {ended.code}" + (f": {said}" if said else "")
    else:
        return GateResult(gate, None, ended.seconds)
    return GateResult(gate, f"gate {gate.name}: {reason}", ended.seconds)


def _file_name(name: str) -> str:
    """The name as part of a file's, with a digest where that is not the name itself."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:80]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
