"""Decides which commands of a benchmark start as copies of a warm process, and says once why others do not."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from loopty.domain.benchmark import Benchmark
from loopty.domain.launch import Mount, WarmStart
from loopty.engine.protocols import Trial
from loopty.kit.records import Record

Say = Callable[[str], None]
_BACK_END = "namespaces"
NOT_WARM = "`warm` has no effect"


class PackageSource(Protocol):
    """What a benchmark imports, and where its packages are."""

    def names(self, commit: str) -> frozenset[str]:
        """List the names under which the benchmark can import files of the repository."""
        ...

    def imports(
        self, commit: str, arguments: Sequence[str]
    ) -> tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]:
        """List the packages that a command imports, without those of the repository."""
        ...


class WarmCommands:
    """Makes the warm starts of a benchmark's commands."""

    def __init__(
        self,
        benchmark: Benchmark,
        back_end: str,
        packages: PackageSource,
        package_mounts: Callable[[Trial], tuple[Mount, ...]],
        folders: tuple[str, ...],
        say: Say,
    ) -> None:
        """`package_mounts` shows the SDK and environments; `folders` are on the interpreter's search path."""
        self._packages = packages
        self._package_mounts = package_mounts
        self._folders = folders
        self._say = say
        self._starts: dict[tuple[str, tuple[str, ...]], WarmStart] = {}
        self._obstacle = _obstacle(benchmark, back_end)
        self._reasons: set[str] = set()

    def start(
        self, trial: Trial, argv: tuple[str, ...], env: Mapping[str, str], mounts: tuple[Mount, ...]
    ) -> WarmStart | None:
        """Say how a command of a trial starts as a copy, or None. `env` and `mounts` are the same for all."""
        key = trial.root.commit, argv
        if key not in self._starts:
            command = PythonCommand.parse(argv)
            if reason := self._obstacle or ("" if command else "its command is not one call of `python FILE`"):
                self._explain(reason)
                return None
            assert command is not None
            self._starts[key] = WarmStart(
                python=command.python,
                arguments=command.arguments,
                imports=self._packages.imports(trial.root.commit, command.arguments),
                mounts=(*mounts, *self._package_mounts(trial)),
                env=tuple(env.items()),
                names=self._packages.names(trial.root.commit),
                folders=self._folders,
                on_cold=self._explain,
            )
        return self._starts[key]

    def _explain(self, reason: str) -> None:
        """Say why a command starts by itself, each reason once."""
        if reason not in self._reasons:
            self._reasons.add(reason)
            self._say(f"{NOT_WARM}: {reason}; trials start their interpreter as without it")


def _obstacle(benchmark: Benchmark, back_end: str) -> str:
    """Say why no command of a benchmark can start as a copy, or return an empty text."""
    if back_end != _BACK_END:
        return f"the back end is {back_end}, and only {_BACK_END} has warm processes"
    if benchmark.writable_copy:
        return "the benchmark runs in a writable copy"
    if benchmark.network or benchmark.devices:
        return "the benchmark uses the network or devices"
    return ""


_SHELL = ("/bin/sh", "-c")
# A line that the shell only splits into words.
_PLAIN_LINE = re.compile(r"[A-Za-z0-9_./:,+@%= -]+")
_PYTHON = re.compile(r"(?:[^-][^\s]*/)?python[0-9.]*")
_OPTIONS = {"-B", "-E", "-I", "-O", "-OO", "-P", "-S", "-s", "-u"}


class PythonCommand(Record):
    """An interpreter with its options, and what it runs: a script, or `-m` and a module, with its arguments."""

    python: tuple[str, ...]
    arguments: tuple[str, ...]

    @classmethod
    def parse(cls, argv: tuple[str, ...]) -> PythonCommand | None:
        """Parse the command as such a call; None when it is another one, or when only a shell can read it."""
        words = list(argv)
        if argv[:2] == _SHELL and len(argv) == 1 + len(_SHELL):
            if not _PLAIN_LINE.fullmatch(argv[2]):
                return None
            words = shlex.split(argv[2])
        if not words or not _PYTHON.fullmatch(words[0]):
            return None
        start = next((place for place, word in enumerate(words[1:], 1) if word not in _OPTIONS), len(words))
        rest = words[start:]
        has_script = bool(rest) and not rest[0].startswith("-")
        has_module = len(rest) > 1 and rest[0] == "-m"
        return cls(tuple(words[:start]), tuple(rest)) if has_script or has_module else None
