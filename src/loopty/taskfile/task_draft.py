"""A task before it is written: what `loopty init` was told, found out and changed, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopty.causes.absent_results import CPU_TIMER, WALL_SECONDS
from loopty.causes.cause import Setting
from loopty.domain.objective import Direction, Metric
from loopty.domain.round_size import ResourceProfile
from loopty.domain.score_names import direction_of
from loopty.domain.space import Parameter
from loopty.kit.records import Record, field, replace

FIRST_TIMEOUT = 120.0
"""Seconds that the first checked run may take, before a limit is known: a benchmark may never end."""
BUILD_TIMEOUT = 900.0
"""The same for a command that builds the repository first: C++ takes minutes, on a busy machine many."""

_LONGEST_TIMEOUT = 1800.0
"""Nobody waits longer for a first check, however busy the machine is."""
_LONGEST_FIRST = 480.0
"""The same for a command that builds nothing: it may never end."""


class GateDraft(Record):
    """A command that must pass."""

    name: str
    command: str
    timeout_seconds: float = FIRST_TIMEOUT
    is_proposed: bool = False
    """Whether `init` proposed it; then it is left out when the files as they are do not pass."""
    smaller: tuple[str, ...] = ()
    """Commands that test less, for where this one does not pass or takes too long."""


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
    files: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()
    writable_copy: bool = False
    mounts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    network: bool = False
    memory_mb: int = 2048
    disk_mb: int = 1024
    processes: int = 256
    output_mb: int = 64
    metrics: tuple[Metric, ...] = ()
    gates: tuple[GateDraft, ...] = ()
    times_the_tests: bool = False
    """Whether `init` proposed the time of the tests: then a run without any test proves nothing."""
    last_resort: str = ""
    """What is measured, in words, where only loading or building can be measured; else empty."""
    is_part: bool = False
    """Whether it builds or tests only a part, for where the whole takes too long."""
    has_build: bool = False
    """Whether the command builds the repository first."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    proposer: str = "mutate"
    package: str = ""
    """The name of the package, by which its own benchmarks are known among those of its rivals."""
    profile: ResourceProfile | None = None
    """What a trial uses, where that was measured."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Why a setting is as it is, by its key."""

    @property
    def is_benchmark(self) -> bool:
        """Whether it is a benchmark that the repository has, and not what can be measured for want of one."""
        return not (self.times_the_tests or self.last_resort or self.is_part)

    @property
    def measures(self) -> str:
        """What is measured, in words."""
        if self.last_resort:
            return f"only {self.last_resort}"
        return "the CPU time of the tests" if self.times_the_tests else "another benchmark"

    @property
    def is_cpu_time(self) -> bool:
        """Whether the score is the CPU time of a command."""
        return f"{CPU_TIMER} " in self.command and self.score_key != WALL_SECONDS

    def with_note(self, key: str, why: str) -> TaskDraft:
        before = self.notes.get(key)
        return replace(self, notes={**self.notes, key: f"{before}; {why}" if before else why})

    def with_patience(self, factor: float) -> TaskDraft:
        """The draft with limits that are so many times longer, those of proposed gates included."""
        gates = tuple(
            replace(gate, timeout_seconds=_longer(gate.timeout_seconds, factor)) if gate.is_proposed else gate
            for gate in self.gates
        )
        return replace(self, timeout_seconds=_longer(self.timeout_seconds, factor), gates=gates)

    def with_setting(self, setting: Setting, why: str) -> TaskDraft:
        """The draft with one line changed."""
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
        """The draft without a gate, with the reason."""
        gates = tuple(gate for gate in self.gates if gate.name != name)
        return replace(self, gates=gates).with_note(f"gates.{name}", why)


def _longer(seconds: float, factor: float) -> float:
    longest = _LONGEST_TIMEOUT if seconds > FIRST_TIMEOUT else _LONGEST_FIRST
    return float(round(max(seconds, min(factor * seconds, longest))))
