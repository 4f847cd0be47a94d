"""The benchmark of a task, and the limits of one trial."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.cascade_spec import CascadeStage
from loopty.domain.launch import Bounds
from loopty.kit.dataclass import Record, dataclass
from loopty.kit.option import option


@dataclass(frozen=True, slots=True)
class Benchmark(Record):
    """The command that scores a candidate."""

    command: str | tuple[str, ...] = option(
        "The command to run in the candidate's tree: a shell line, or a list of arguments."
    )
    timeout_seconds: float = option("Wall-clock limit of one trial, from the start of its execution.", above=0)
    files: tuple[str, ...] = option(
        "The benchmark's own files: never writable, and a change to them starts a new run. "
        "Default: the files that the command names and `write` does not, and what they load (imports, "
        "sourced files).",
        (),
        glob=True,
    )
    result: str = option(
        "Where the result is. `file`: the benchmark writes it to $EVO_RESULT_PATH or $LOOPTY_METRICS_CSV; "
        "`stdout`: it prints one JSON object, or a last line like `score: 1.2`. Or the tool that measures: "
        "`pytest-benchmark`, `hyperfine`, `google-benchmark`, `criterion`, `go-bench`, `benchmark-js`, "
        "`perf-stat`, `pyperf` (see `docs/benchmarks.md`).",
        "file",
    )
    score_key: str = option(
        "The number of the result that is the score, with dots into nested objects, as in `metrics.accuracy` or "
        "`test_sort.min`. Default: `score` or `combined_score`; of a tool, the median time.",
        "",
    )
    scratch: tuple[str, ...] = option(
        "Directories that start empty and writable, for build output.", (), glob=True
    )
    caches: tuple[str, ...] = option(
        "Directories like `scratch` that start with what the baseline's benchmark left in them (`target`, "
        "`build`): every trial has its own copy.",
        (),
        glob=True,
    )
    writable_copy: bool = option(
        "Whether the commands run in a private, writable copy of the tree, for builds that write beside their "
        "sources. The copy is in $TMPDIR; a candidate can change the benchmark's files in it.",
        False,
    )
    warm: bool = option(
        "Whether a Python benchmark starts as a copy of a process that has imported its packages, in a sandbox of "
        "its own as always (see `docs/benchmarks.md`).",
        False,
    )
    isolated: bool = option(
        "Whether the benchmark sees only its own files, and the SDK calls the candidate in a sandbox of its own.",
        False,
    )
    data: tuple[str, ...] = option(
        "Host paths with the benchmark's data, mounted at the same path, but not for an isolated candidate; "
        "a change to them starts a new run.",
        (),
    )
    env: Mapping[str, str] = option("Environment variables; your shell's are not inherited.", {})
    mounts: tuple[str, ...] = option("Host paths mounted read-only: toolchains, data, environments.", ())
    network: bool = option("Whether the trial may use the network.", False)
    resources: tuple[str, ...] = option(
        "Things that only one trial can use at a time (a GPU, a port): trials take turns.", ()
    )
    devices: tuple[str, ...] = option(
        "Devices that a trial may use: `gpu` (all NVIDIA or AMD GPUs), `gpu:0`, or the path of a character "
        "device. Trials take turns with them.",
        (),
    )
    share_devices: bool = option("Whether trials may use the devices at the same time.", False)
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
class Limits(Record):
    """The limits of one trial."""

    memory_mb: int = option("Memory of the whole process tree.", 2048, above=0)
    processes: int = option("Processes and threads.", 256, above=0)
    output_mb: int = option("Output to stdout and stderr.", 64, above=0)
    disk_mb: int = option("Files written to disk and to /tmp.", 1024, above=0)

    def bounds(self, seconds: float) -> Bounds:
        return Bounds(seconds, self.memory_mb, self.processes, self.output_mb, self.disk_mb)
