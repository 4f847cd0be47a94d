"""The environment variables of a trial: where things are, and which trial it is."""

from __future__ import annotations

from loopty.domain.benchmark import Benchmark, Gate
from loopty.domain.trial import Pool
from loopty.engine.protocols import Trial
from loopty.evaluators.result import RESULT
from loopty.evaluators.result_formats import load_format
from loopty.kit.records import Record

METRICS, STOP = "metrics.csv", "stop"


class SandboxPaths(Record):
    """The paths of a trial's files and sockets inside its sandbox."""

    tree: str
    """The candidate's files."""
    benchmark: str
    """The benchmark's own files, when the candidate runs in another sandbox."""
    inbox: str
    outbox: str
    candidate: str
    """The socket through which an isolated benchmark reaches the candidate."""
    sdk: str
    """The package that benchmarks report with, and that serves a candidate's functions."""
    model: str = "/loopty/model"
    """The socket through which the benchmark reaches the user role's model."""
    count: str = "/loopty/count"
    """The pipe to which the counter of instructions reports."""
    host_top: str = ""
    """The repository's path on the host."""
    links_host_top: bool = False
    """Whether that path leads to the same files in the trial: environments name it."""

    def links_to(self, top: str) -> dict[str, str]:
        """Return the links that lead from the host's path of the repository to the files at `top`."""
        return {self.host_top: top} if self.links_host_top else {}


def benchmark_environment(trial: Trial, benchmark: Benchmark, paths: SandboxPaths) -> dict[str, str]:
    """Make the environment that every benchmark may rely on."""
    result_format, result = load_format(benchmark.result), f"{paths.outbox}/{RESULT}"
    variables = {
        **result_format.environment(benchmark.env, result, paths.outbox),
        **_common_environment(trial, benchmark, paths),
        "EVO_TRACES_DIR": f"{paths.outbox}/traces",
        "EVO_CHECKPOINT_DIR": f"{paths.outbox}/checkpoint",
        "LOOPTY_ARTIFACTS_DIR": f"{paths.outbox}/artifacts",
        "LOOPTY_METRICS_CSV": f"{paths.outbox}/{METRICS}",
        "LOOPTY_STOP_PATH": f"{paths.inbox}/{STOP}",
    }
    if not result_format.on_stdout:
        variables["EVO_RESULT_PATH"] = result
    return variables


def candidate_environment(trial: Trial, paths: SandboxPaths) -> dict[str, str]:
    """Make the environment of a candidate that runs apart from the benchmark: only its own parameters."""
    return {"LOOPTY_PARAMS": f"{paths.inbox}/params.json"} if trial.node.params else {}


def gate_environment(trial: Trial, gate: Gate, benchmark: Benchmark, paths: SandboxPaths) -> dict[str, str]:
    """Make the environment of a gate, which reports nothing but its exit code."""
    return {**_common_environment(trial, benchmark, paths), "LOOPTY_GATE": gate.name}


def _common_environment(trial: Trial, benchmark: Benchmark, paths: SandboxPaths) -> dict[str, str]:
    variables = {
        "EVO_EXPERIMENT_ID": str(trial.node.id),
        "EVO_ATTEMPT": str(trial.number),
        "LOOPTY_MODE": "audit" if trial.pool is Pool.AUDIT else "tune" if trial.slice else "attempt",
        "LOOPTY_PARAMS": f"{paths.inbox}/params.json",
        "LOOPTY_SEED": str(trial.seed),
    }
    if trial.slice:
        variables["LOOPTY_SLICE"] = trial.slice
    if not benchmark.isolated:
        variables["EVO_WORKTREE"] = paths.tree
    return variables
