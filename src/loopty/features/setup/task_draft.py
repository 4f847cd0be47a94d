"""A task before it is written: what `loopty init` was told, found out and changed, with the reasons."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from loopty.domain.errors import Misuse
from loopty.domain.objective import Direction, Metric, direction_of
from loopty.domain.space import Parameter, ParameterKind
from loopty.domain.task_tables import ResourceProfile, RoundSize
from loopty.features.setup.causes.results import CPU_TIMER, TEST_TIMER, WALL_SECONDS
from loopty.kit import paths
from loopty.kit.records import Record, field, replace
from loopty.show.explanation import Setting

FIRST_TIMEOUT = 120.0
"""Seconds that the first checked run may take, before a limit is known: a benchmark may never end."""
BUILD_TIMEOUT = 900.0
"""The same for a command that builds the repository first: C++ takes minutes, on a busy machine many."""


class GateDraft(Record):
    """A command that must pass."""

    name: str
    command: str
    timeout_seconds: float = FIRST_TIMEOUT
    is_proposed: bool = False
    """Whether `init` proposed it; then it is left out when the files as they are do not pass."""
    smaller: tuple[str, ...] = ()
    """Commands that test less, for where this one does not pass or takes too long."""


class StageDraft(Record):
    """A cheap command that comes before the benchmark, with what it has to reach."""

    name: str
    command: str
    minimum: float


class TaskDraft(Record):
    """The parts of a task file that `init` fills in."""

    command: str
    write: tuple[str, ...] = ()
    statement: str = ""
    direction: str = "max"
    timeout_seconds: float = FIRST_TIMEOUT
    attempts: int = 100
    result: str = "file"
    score_key: str = ""
    rows: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()
    writable_copy: bool = False
    warm: bool = False
    isolated: bool = False
    """Whether the benchmark calls the code in a sandbox of its own, where it cannot reach the score."""
    is_counted: bool = False
    """Whether the score is the number of executed instructions."""
    mounts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    network: bool = False
    memory_mb: int = 2048
    disk_mb: int = 1024
    processes: int = 256
    output_mb: int = 64
    metrics: tuple[Metric, ...] = ()
    gates: tuple[GateDraft, ...] = ()
    stages: tuple[StageDraft, ...] = ()
    audit_command: str = ""
    """Scores a node on examples that the search does not use."""
    model: str = ""
    """The model that the task of another tool asks for; a proposal, unless the proposer needs one."""
    api_base: str = ""
    """The address of a server with OpenAI's chat API that has this model."""
    times_the_tests: bool = False
    """Whether `init` proposed the time of the tests: then a run without any test proves nothing."""
    is_part: bool = False
    """Whether it builds or tests only a part, for where the whole takes too long."""
    has_build: bool = False
    """Whether the command builds the repository first."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    proposer: str = "mutate"
    package: str = ""
    """The name of the package, by which its own benchmarks are known among those of its rivals."""
    rivals: tuple[str, ...] = ()
    """Packages of others that its benchmarks use."""
    is_shorter: bool = False
    """Whether each benchmark is measured for a shorter time, for where all of it takes too long."""
    trains: bool = False
    """Whether the command trains a model, so that a metric is the score."""
    has_fixed_time: bool = False
    """Whether the benchmark works for a time that was fixed before: then what it takes says nothing."""
    profile: ResourceProfile | None = None
    """What a trial uses, where that was measured."""
    width: RoundSize | None = None
    """How many trials run at once here, where the profile says it."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Why a setting is as it is, by its key."""

    @property
    def is_benchmark(self) -> bool:
        """Say whether it is the repository's own benchmark, not what can be measured for want of one."""
        return not (self.times_the_tests or self.is_part)

    @property
    def measures(self) -> str:
        """Say what is measured, in words."""
        return "the CPU time of the tests" if self.times_the_tests else "another benchmark"

    @property
    def is_cpu_time(self) -> bool:
        """Say whether the score is the CPU time of a command."""
        is_timed = f"{CPU_TIMER} " in self.command or self.is_without_start
        return is_timed and self.score_key != WALL_SECONDS

    @property
    def is_without_start(self) -> bool:
        """Say whether the score is the CPU time of tests without that of their start."""
        return f"{TEST_TIMER} " in self.command

    @property
    def is_timed_program(self) -> bool:
        """Say whether a program named as a benchmark is timed from outside, not the tests."""
        return not self.times_the_tests

    def with_note(self, key: str, why: str) -> TaskDraft:
        before = self.notes.get(key)
        return replace(self, notes={**self.notes, key: f"{before}; {why}" if before else why})

    def with_setting(self, setting: Setting, why: str) -> TaskDraft:
        """Return the draft with one line changed."""
        if setting.table.startswith("gates."):
            name = setting.table.removeprefix("gates.")
            change: dict[str, Any] = {setting.key: setting.value}
            gates = tuple(replace(gate, **change) if gate.name == name else gate for gate in self.gates)
            return replace(self, gates=gates).with_note(setting.table, why)
        if setting.table == "objective.metrics":
            name = str(setting.value)
            metric = Metric(name, direction_of(name) or Direction.MAX)
            return replace(self, metrics=(metric,)).with_note("metrics", why)
        changed: dict[str, Any] = {setting.key: setting.value}
        return replace(self, **changed).with_note(setting.key, why)

    def without_gate(self, name: str, why: str) -> TaskDraft:
        """Return the draft without a gate, with the reason."""
        gates = tuple(gate for gate in self.gates if gate.name != name)
        return replace(self, gates=gates).with_note(f"gates.{name}", why)


_FORMS = "NAME=float:LOW:HIGH[:log], NAME=int:LOW:HIGH[:log] or NAME=categorical:A,B,C"


def parse_parameter(text: str) -> tuple[str, Parameter]:
    """Parse the name and the parameter. Raises Misuse with the form that is expected."""
    name, _, rest = text.partition("=")
    kind, *parts = rest.split(":")
    if not name.strip() or kind not in tuple(ParameterKind):
        raise Misuse(f"--param {text!r} is none of {_FORMS}")
    if kind == ParameterKind.CATEGORICAL:
        parameter = Parameter(ParameterKind.CATEGORICAL, choices=tuple(":".join(parts).split(",")))
    else:
        log = parts[-1:] == ["log"]
        bounds = parts[:-1] if log else parts
        try:
            low, high = map(float, bounds)
        except ValueError:
            raise Misuse(f"--param {text!r} needs two numbers, LOW and HIGH: {_FORMS}") from None
        parameter = Parameter(ParameterKind(kind), low, high, log)
    if len(set(parameter.choices)) == 1:
        raise Misuse(
            f"--param {text!r} has one value, and nothing to search: name at least two, as in k=categorical:a,b"
        )
    if fault := parameter.fault():
        raise Misuse(f"--param {text!r}: {fault}")
    return name.strip(), parameter


_MAX_NAMES = 3


def require_matches(patterns: Sequence[str], files: Sequence[str]) -> None:
    """Raise Misuse for the first pattern that matches no file, with the nearest that would."""
    for pattern in patterns:
        if not any(paths.matches(path, (pattern,)) for path in files):
            near = _near_matches(pattern, files)
            remedy = f"did you mean {' or '.join(near)}?" if near else "name files that exist, or a folder of them"
            raise Misuse(f"--write {pattern!r} matches no file of the repository: {remedy}")


def _near_matches(pattern: str, files: Sequence[str]) -> list[str]:
    folders = {str(parent) for path in files for parent in PurePosixPath(path).parents if str(parent) != "."}
    known = {*files, *folders, *(f"{folder}/**" for folder in folders)}

    near = difflib.get_close_matches(pattern, sorted(known), n=_MAX_NAMES, cutoff=0.6)
    name = PurePosixPath(pattern).name
    same_name = [path for path in files if PurePosixPath(path).name == name]
    return list(dict.fromkeys((*same_name, *near)))[:_MAX_NAMES]
