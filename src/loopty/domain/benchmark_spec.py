"""The benchmark of a task, and the limits of one trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loopty.domain.cascade_spec import CascadeStage
from loopty.domain.launch import Bounds
from loopty.kit.option import option


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The command that scores a candidate."""

    command: str | tuple[str, ...] = option(
        "Command to run in the candidate's tree: a shell line, or a list of arguments."
    )
    timeout_seconds: float = option("Wall-clock limit of one trial, from the start of its execution.", above=0)
    files: tuple[str, ...] = option(
        "The benchmark's own files. They are protected, and a change to them starts a new run. Default: "
        "files that the command names, and what they load, except `write`.",
        (),
        glob=True,
    )
    result: str = option(
        "Where the result is. `file`: in $EVO_RESULT_PATH or $LOOPTY_METRICS_CSV; `stdout`: one JSON "
        "object, or a last line like `score: 1.2`. Or a tool: `pytest-benchmark`, `hyperfine`, "
        "`google-benchmark`, `criterion`, `go-bench`, `benchmark-js`, `perf-stat`, `pyperf`.",
        "file",
    )
    score_key: str = option(
        "Which number of the result is the score, as in `metrics.accuracy`. Default: `score` or "
        "`combined_score`; of a tool, the median time.",
        "",
    )
    scratch: tuple[str, ...] = option(
        "Directories that start empty and writable, for build output.", (), glob=True
    )
    caches: tuple[str, ...] = option(
        "Directories like `scratch` that start with what the baseline's benchmark left there; each trial "
        "has its own copy.",
        (),
        glob=True,
    )
    writable_copy: bool = option(
        "Run in a private, writable copy of the tree, for builds beside the sources. A candidate can change"
        " the benchmark's files in it.",
        False,
    )
    warm: bool = option(
        "Start a Python benchmark as a copy of a process that has imported its packages (`docs/benchmarks.md`).",
        False,
    )
    isolated: bool = option(
        "Show the benchmark only its own files, and run the candidate in a second sandbox.",
        False,
    )
    data: tuple[str, ...] = option(
        "Host paths with the benchmark's data. An isolated candidate does not see them; a change starts a "
        "new run.",
        (),
    )
    env: Mapping[str, str] = option("Environment variables; your shell's are not inherited.", {})
    mounts: tuple[str, ...] = option("Host paths mounted read-only: toolchains, data, environments.", ())
    network: bool = option("Let trials use the network.", False)
    resources: tuple[str, ...] = option(
        "Names of things that one trial uses at a time (a port, a licence): trials take turns.", ()
    )
    devices: tuple[str, ...] = option(
        "Devices for trials: `gpu` (all NVIDIA or AMD GPUs), `gpu:0`, or the path of a character device. "
        "Trials take turns.",
        (),
    )
    share_devices: bool = option("Let trials use the devices at the same time.", False)
    grace_seconds: float = option(
        "Time that a stopped trial has to end by itself before it is killed.", 5.0, minimum=0
    )
    cascade: tuple[CascadeStage, ...] = option(
        "Cheap commands that run first and stop weak candidates, one `[[benchmark.cascade]]` table each.",
        (),
    )

    @property
    def commands(self) -> tuple[str | tuple[str, ...], ...]:
        """Its command, and those of its cascade."""
        return (self.command, *(stage.command for stage in self.cascade))

    @property
    def argv(self) -> tuple[str, ...]:
        return ("/bin/sh", "-c", self.command) if isinstance(self.command, str) else self.command


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one trial."""

    memory_mb: int = option("Memory of the whole process tree.", 2048, above=0)
    processes: int = option("Processes and threads.", 256, above=0)
    output_mb: int = option("Output to stdout and stderr.", 64, above=0)
    disk_mb: int = option("Files written to disk and to /tmp.", 1024, above=0)

    def bounds(self, seconds: float) -> Bounds:
        return Bounds(seconds, self.memory_mb, self.processes, self.output_mb, self.disk_mb)
