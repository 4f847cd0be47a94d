"""What a trial is told by its environment: where things are, and who it is."""

from __future__ import annotations

from dataclasses import dataclass

from loopty.domain.gate_spec import Gate
from loopty.domain.pool import Pool
from loopty.domain.task import Benchmark
from loopty.engine.protocols import Trial

RESULT, METRICS, STOP = "result.json", "metrics.csv", "stop"


@dataclass(frozen=True, slots=True)
class SandboxPaths:
    """Where a sandbox shows what a trial needs."""

    tree: str
    """The candidate's files."""
    benchmark: str
    """The benchmark's own files, when the candidate is apart from it."""
    inbox: str
    outbox: str
    candidate: str
    """The socket by which an isolated benchmark reaches the candidate."""
    sdk: str
    """The package that benchmarks report with, and that serves a candidate's functions."""
    model: str = "/loopty/model"
    """The socket by which the benchmark reaches the user role's model."""


def benchmark_environment(trial: Trial, benchmark: Benchmark, places: SandboxPaths) -> dict[str, str]:
    """The environment that every benchmark may rely on."""
    contract = {
        **_shared_environment(trial, benchmark, places),
        "EVO_TRACES_DIR": f"{places.outbox}/traces",
        "EVO_CHECKPOINT_DIR": f"{places.outbox}/checkpoint",
        "LOOPTY_METRICS_CSV": f"{places.outbox}/{METRICS}",
        "LOOPTY_STOP_PATH": f"{places.inbox}/{STOP}",
    }
    if benchmark.result == "file":
        contract["EVO_RESULT_PATH"] = f"{places.outbox}/{RESULT}"
    return contract


def gate_environment(trial: Trial, gate: Gate, benchmark: Benchmark, places: SandboxPaths) -> dict[str, str]:
    """The environment of a gate, which has nothing to report but its exit code."""
    return {**_shared_environment(trial, benchmark, places), "LOOPTY_GATE": gate.name}


def _shared_environment(trial: Trial, benchmark: Benchmark, places: SandboxPaths) -> dict[str, str]:
    told = {
        "EVO_EXPERIMENT_ID": str(trial.node.id),
        "EVO_ATTEMPT": str(trial.number),
        "LOOPTY_MODE": "audit" if trial.pool is Pool.AUDIT else "attempt",
        "LOOPTY_PARAMS": f"{places.inbox}/params.json",
        "LOOPTY_SEED": str(trial.seed),
    }
    if not benchmark.isolated:
        told["EVO_WORKTREE"] = places.tree
    return told
