"""A failed trial as the rules see it, and what they may ask about this machine and this repository."""

from __future__ import annotations

import re
import shlex
from typing import Protocol

from loopty.domain.benchmark import Gate
from loopty.domain.task import Task
from loopty.kit.records import Record
from loopty.show.explanation import Setting, SettingValue


class Submodule(Record):
    """A repository inside the repository."""

    path: str
    is_checked_out: bool


class HostFacts(Protocol):
    """Facts, looked up only when a rule asks. Names and paths come from output that nobody vouches for."""

    def program(self, name: str) -> str | None:
        """Find this program in the user's shell or a usual folder of tools; None if it is not installed."""
        ...

    def is_shown(self, path: str) -> bool:
        """Say whether trials see this path of the host anyway."""
        ...

    def has_path(self, path: str) -> bool:
        """Say whether the working tree, or the host for an absolute path, has this path."""
        ...

    def memory_mb(self) -> int:
        """Return how much memory this machine has."""
        ...

    def has_gpu(self) -> bool:
        """Say whether this machine has a GPU that trials could use."""
        ...

    def is_executable(self, path: str) -> bool:
        """Say whether this file of the working tree is a program."""
        ...

    def outermost_ignored(self, path: str) -> str | None:
        """Find the outermost part of a path in the working tree that git ignores, or None."""
        ...

    def has_tracked_files(self, folder: str) -> bool:
        """Say whether git tracks a file in this folder of the repository."""
        ...

    def is_environment(self, folder: str) -> bool:
        """Say whether packages are installed in this folder of the working tree."""
        ...

    def environment_with(self, module: str) -> str | None:
        """Find the virtual environment in the working tree, ignored by git, with this Python module, or None."""
        ...

    def source_root(self, module: str) -> str | None:
        """Find the folder of the repository, below its top, that has this Python module, or None."""
        ...

    def is_node_dependency(self, name: str) -> bool:
        """Say whether package.json of the repository names this package among those that it needs."""
        ...

    def builds_module(self, name: str) -> bool:
        """Say whether setup.py of the repository builds this Python module from sources of another language."""
        ...

    def build_requirements(self) -> tuple[str, ...]:
        """List what pyproject.toml wants for a build, each quoted for a shell; empty if it does not say."""
        ...

    def submodule(self, path: str) -> Submodule | None:
        """Find the submodule that this path is in, or None."""
        ...

    def system_package(self, *names: str) -> str | None:
        """Find the first of these packages that could be installed with apt; None if none is known."""
        ...

    def library(self, name: str) -> str | None:
        """Find the folder of the host that has this shared library, or None."""
        ...


def through_candidate(line: str, seconds: float) -> str:
    """Return a line that runs in the sandbox of an isolated candidate, among its files."""
    return f"python3 -m loopty_sdk.candidate --seconds {seconds:g} -- sh -c {shlex.quote(line)}"


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
        """Find the first match of a pattern, tried in order, in the reason and then in the lines."""
        for pattern in patterns:
            if found := re.search(pattern, self.text, re.MULTILINE):
                return found
        return None

    @property
    def gate(self) -> Gate | None:
        """Find the gate that failed; None if it was the benchmark."""
        return next((gate for gate in self.task.gates if self.reason.startswith(f"gate {gate.name}: ")), None)

    @property
    def command(self) -> str:
        """Return the command that failed, as a shell line."""
        command = self.gate.command if self.gate else self.task.benchmark.command
        return command if isinstance(command, str) else shlex.join(command)

    @property
    def subject(self) -> str:
        """Say what failed, in words."""
        return f"the gate {self.gate.name}" if self.gate else "the benchmark"

    @property
    def timeout_seconds(self) -> float:
        return (self.gate or self.task.benchmark).timeout_seconds

    def own_setting(self, key: str, value: SettingValue) -> Setting:
        """Make a setting of the command that failed."""
        return Setting(f"gates.{self.gate.name}" if self.gate else "benchmark", key, value)

    def setting_with(self, key: str, *values: str) -> Setting:
        """Make a list of the benchmark with these values added."""
        before: tuple[str, ...] = getattr(self.task.benchmark, key)
        return Setting("benchmark", key, tuple(dict.fromkeys((*before, *values))))


def path_in_tree(path: str) -> str | None:
    """Return the path from the repository's top; None for one outside of it."""
    relative = _IN_TREE.sub("", path)
    if relative.startswith(("/", "~")) or ".." in relative.split("/") or not relative.strip("./"):
        return None
    return relative.removeprefix("./").rstrip("/")
