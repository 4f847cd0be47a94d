"""A failed trial as the rules see it: what it printed, and the task that it belongs to."""

from __future__ import annotations

import re
import shlex

from loopty.causes.cause import Setting, SettingValue
from loopty.domain.gate_spec import Gate
from loopty.domain.task import Task
from loopty.kit.records import Record

TREE = "/loopty/tree/"
"""Where trials see the repository; with some sandboxes the same folder is below a temporary one."""
_IN_TREE = re.compile(r"^.*?/(?:loopty/tree|loopty/benchmark)/")


class Failure(Record):
    """Why a trial failed, as its record has it."""

    reason: str
    lines: tuple[str, ...]
    task: Task
    output: str = ""
    """The end of the log with the error; empty for failures of which only the record is known."""

    @property
    def text(self) -> str:
        return "\n".join((self.reason, *self.lines))

    def match(self, *patterns: str) -> re.Match[str] | None:
        """The first match of a pattern, tried in order, in the reason and then in the lines."""
        for pattern in patterns:
            if found := re.search(pattern, self.text, re.MULTILINE):
                return found
        return None

    @property
    def gate(self) -> Gate | None:
        """The gate that failed; None where it was the benchmark."""
        return next((gate for gate in self.task.gates if self.reason.startswith(f"gate {gate.name}: ")), None)

    @property
    def command(self) -> str:
        """The command that failed, as a shell line."""
        command = self.gate.command if self.gate else self.task.benchmark.command
        return command if isinstance(command, str) else shlex.join(command)

    @property
    def subject(self) -> str:
        """What failed, in words."""
        return f"the gate {self.gate.name}" if self.gate else "the benchmark"

    @property
    def timeout_seconds(self) -> float:
        return (self.gate or self.task.benchmark).timeout_seconds

    def own_setting(self, key: str, value: SettingValue) -> Setting:
        """A setting of the command that failed."""
        return Setting(f"gates.{self.gate.name}" if self.gate else "benchmark", key, value)

    def setting_with(self, key: str, *values: str) -> Setting:
        """A list of the benchmark with these values added."""
        before: tuple[str, ...] = getattr(self.task.benchmark, key)
        return Setting("benchmark", key, tuple(dict.fromkeys((*before, *values))))


def path_in_tree(path: str) -> str | None:
    """The path from the repository's top; None for one outside of it."""
    relative = _IN_TREE.sub("", path)
    if relative.startswith(("/", "~")) or ".." in relative.split("/") or not relative.strip("./"):
        return None
    return relative.removeprefix("./").rstrip("/")
