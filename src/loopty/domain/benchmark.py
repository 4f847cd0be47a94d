"""What a trial runs and has to meet: the benchmark, its limits, the cheap commands before it, the gates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum

from loopty.domain.launch import Bounds
from loopty.domain.objective import SCORE, Metrics
from loopty.kit.records import Record
from loopty.kit.tables import Table, option


class CascadeStage(Table):
    """A cheap command that reports a metric, and the bounds that a candidate must meet to get further."""

    name: str = option("The stage's name in reasons and reports.", filled=True)
    command: str | tuple[str, ...] = option(
        "Runs where the benchmark runs, before it, and reports its result in the same way.", filled=True
    )
    timeout_seconds: float = option("Wall-clock limit of the command.", 60.0, above=0)
    metric: str = option("The metric of its result that must lie within the bounds.", SCORE)
    minimum: float | None = option("Smallest value that passes.", None)
    maximum: float | None = option("Largest value that passes.", None)

    @property
    def argv(self) -> tuple[str, ...]:
        return ("/bin/sh", "-c", self.command) if isinstance(self.command, str) else self.command

    def fault(self) -> str | None:
        """Tell what is wrong with this stage, or None."""
        bounds = [bound for bound in (self.minimum, self.maximum) if bound is not None]
        if not bounds:
            return "stops no candidate: give minimum or maximum"
        if not all(map(math.isfinite, bounds)):
            return "needs finite bounds"
        if len(bounds) == 2 and bounds[0] > bounds[1]:
            return f"lets no candidate go on: {bounds[0]:g} is above {bounds[1]:g}"
        return None

    def refusal(self, metrics: Metrics) -> str | None:
        """Tell why a candidate with these metrics stops here, or None."""
        value = metrics.get(self.metric)
        if value is None:
            return f"stage {self.name}: {self.metric} was not reported"
        if self.minimum is not None and value < self.minimum:
            return f"stage {self.name}: {self.metric} {value:g} is below {self.minimum:g}"
        if self.maximum is not None and value > self.maximum:
            return f"stage {self.name}: {self.metric} {value:g} is above {self.maximum:g}"
        return None


class StageResult(Record):
    """What one stage of the cascade measured in a trial. It is never ranked: stages measure different things."""

    name: str
    value: float | None
    """The value of its metric; None where it reported none."""
    seconds: float


class Benchmark(Table):
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
        "object, or a last line like `score: 1.2`; `units`: lines like `parse: 12.3 ms`. Or a tool, as "
        "`pytest-benchmark`, `criterion` or `vitest`: `docs/benchmarks.md` lists them.",
        "file",
    )
    score_key: str = option(
        "Which number of the result is the score, as in `metrics.accuracy`. Default: `score` or "
        "`combined_score`; of a tool, the median time.",
        "",
    )
    rows: tuple[str, ...] = option(
        "Which benchmarks of a tool count, by name: `*` stands for any text, and `!` leaves out, as in"
        ' `["!*lodash*"]`. Default: all.',
        (),
    )
    measure: str = option(
        "`clock`: the score is what the benchmark reports; `instructions`: it is the number of instructions that "
        "the command executes, counted by valgrind, and the clock confirms the best (`docs/benchmarks.md`).",
        "clock",
        choices=("clock", "instructions"),
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
    def is_counted(self) -> bool:
        """Say whether the score is the number of executed instructions."""
        return self.measure == "instructions"

    @property
    def commands(self) -> tuple[str | tuple[str, ...], ...]:
        """Return its command, and those of its cascade."""
        return (self.command, *(stage.command for stage in self.cascade))

    @property
    def argv(self) -> tuple[str, ...]:
        return ("/bin/sh", "-c", self.command) if isinstance(self.command, str) else self.command


class Limits(Table):
    """The limits of one trial."""

    memory_mb: int = option("Memory of the whole process tree.", 2048, above=0)
    processes: int = option("Processes and threads.", 256, above=0)
    output_mb: int = option("Output to stdout and stderr.", 64, above=0)
    disk_mb: int = option("Files written to disk and to /tmp.", 1024, above=0)

    def bounds(self, seconds: float) -> Bounds:
        return Bounds(seconds, self.memory_mb, self.processes, self.output_mb, self.disk_mb)


class When(StrEnum):
    BEFORE = "before"
    AFTER = "after"


class Gate(Table):
    """A command that must exit with 0, or a metric that must lie within bounds."""

    name: str = option("The gate's name in verdicts.")
    command: str | tuple[str, ...] = option(
        "Runs where the benchmark runs; exit code 0 passes. Without it, `metric` is checked.", ""
    )
    when: When = option(
        "Run the command `before` the benchmark or `after` it.",
        When.BEFORE,
    )
    timeout_seconds: float = option("Wall-clock limit of the command.", 60.0, above=0)
    metric: str = option("The reported metric that must lie within the bounds.", "")
    minimum: float | None = option("Smallest allowed value of the metric.", None)
    maximum: float | None = option("Largest allowed value of the metric.", None)

    @property
    def argv(self) -> tuple[str, ...]:
        return ("/bin/sh", "-c", self.command) if isinstance(self.command, str) else tuple(self.command)

    def fault(self) -> str | None:
        """Tell what is wrong with this gate, or None."""
        bounded = self.minimum is not None or self.maximum is not None
        if bool(self.command) == bool(self.metric):
            return "needs either a command or a metric"
        if self.metric and not bounded:
            return f"names the metric {self.metric} but no bound: give minimum or maximum"
        if self.command and bounded:
            return "has a bound but no metric: name the metric that it bounds"
        if not all(math.isfinite(bound) for bound in (self.minimum, self.maximum) if bound is not None):
            return "needs finite bounds"
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            return f"can never pass: {self.minimum:g} is above {self.maximum:g}"
        return None

    def refusal(self, metrics: Metrics) -> str | None:
        """Tell why these metrics do not pass, or None; for a gate with a metric."""
        value = metrics.get(self.metric)
        if value is None:
            return f"{self.metric} was not reported"
        if self.minimum is not None and value < self.minimum:
            return f"{self.metric} {value:g} is below {self.minimum:g}"
        if self.maximum is not None and value > self.maximum:
            return f"{self.metric} {value:g} is above {self.maximum:g}"
        return None


def command_gates(gates: Sequence[Gate], when: When) -> list[Gate]:
    """List the gates that run a command at this time."""
    return [gate for gate in gates if gate.command and gate.when is when]


def metric_refusal(gates: Sequence[Gate], metrics: Metrics) -> str | None:
    """Tell which gate these metrics fail first, as a sentence, or None."""
    for gate in gates:
        if gate.metric and (reason := gate.refusal(metrics)):
            return f"gate {gate.name}: {reason}"
    return None
