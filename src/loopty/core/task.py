"""What is to be optimised, as written in `loopty.toml`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from loopty.core.access import Access
from loopty.core.launch import Bounds
from loopty.core.objective import Objective
from loopty.core.space import Space
from loopty.kit import codec
from loopty.kit.option import option


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The command that scores a candidate."""

    command: str | tuple[str, ...] = option("Run in the candidate's tree: a shell line, or arguments.")
    timeout_seconds: float = option("Wall clock of one trial, from when it starts to execute.", above=0)
    files: tuple[str, ...] = option(
        "What the benchmark is made of: never writable, and a change of it starts a new run. "
        "Left out: what the command names, unless `write` names it, too.",
        (),
        glob=True,
    )
    result: str = option(
        "`file`: the result is written to $EVO_RESULT_PATH or $LOOPTY_METRICS_CSV; "
        "`stdout`: stdout is exactly one JSON object.",
        "file",
        choices=("file", "stdout"),
    )
    scratch: tuple[str, ...] = option(
        "Directories that start empty and writable, for build products.", (), glob=True
    )
    env: Mapping[str, str] = option("Environment variables; nothing else is inherited.", {})
    mounts: tuple[str, ...] = option("Host paths shown read-only: toolchains, data, environments.", ())
    network: bool = option("Whether the trial may use the network.", False)
    resources: tuple[str, ...] = option("Things of which there is one (a GPU, a port): trials take turns.", ())
    grace_seconds: float = option("Time that a trial told to stop has to end by itself.", 5.0, minimum=0)

    @property
    def argv(self) -> tuple[str, ...]:
        return ("/bin/sh", "-c", self.command) if isinstance(self.command, str) else self.command


@dataclass(frozen=True, slots=True)
class Limits:
    """What one trial may use at the most."""

    memory_mb: int = option("Memory of the whole process tree.", 2048, above=0)
    processes: int = option("Processes and threads.", 256, above=0)
    output_mb: int = option("What it prints to stdout and stderr.", 64, above=0)
    disk_mb: int = option("What it writes to disk, and to /tmp.", 1024, above=0)

    def bounds(self, seconds: float) -> Bounds:
        return Bounds(seconds, self.memory_mb, self.processes, self.output_mb, self.disk_mb)


@dataclass(frozen=True, slots=True)
class Pools:
    """The budget of a run."""

    attempts: int = option("Trials of proposals, the baseline not counted.", 100, minimum=0)
    control: int = option("Trials of the random control beside them, on their own account.", 0, minimum=0)
    wall_seconds: float | None = option("Time for `loopty optimize`, summed over resumes.", None, above=0)
    tokens: int | None = option("Tokens that models may use.", None, minimum=0)
    money_usd: float | None = option("Money that models may cost.", None, minimum=0)
    target: float | None = option("Stop when the first metric reaches this.", None)
    patience: int | None = option("Stop after so many attempts without improvement.", None, above=0)


@dataclass(frozen=True, slots=True)
class Choice:
    """A plug-in by name, with the options that are its own."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Task:
    """Everything that `loopty.toml` says."""

    statement: str
    benchmark: Benchmark
    objective: Objective
    access: Access
    space: Space
    limits: Limits
    pools: Pools
    proposer: Choice
    control: Choice
    pruner: Choice
    width: int
    seed: int

    def criteria(self, benchmark_digest: str) -> str:
        """A digest of what makes two results of this task comparable; a new one starts a new run."""
        stated = codec.text([self.objective, self.benchmark, self.access, self.limits, benchmark_digest])
        return hashlib.sha256(stated.encode()).hexdigest()[:16]
