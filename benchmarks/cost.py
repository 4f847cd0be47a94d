"""Measure what a command costs: CPU seconds of its whole process tree, and wall seconds as an indication."""

import ctypes
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Cost:
    cpu_seconds: float
    wall_seconds: float
    memory_mb: float = 0.0
    """The most that one of its processes had at once; 0 where it was not measured."""

    def __add__(self, other: "Cost") -> "Cost":
        memory = max(self.memory_mb, other.memory_mb)
        return Cost(self.cpu_seconds + other.cpu_seconds, self.wall_seconds + other.wall_seconds, memory)

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.cpu_seconds - other.cpu_seconds, self.wall_seconds - other.wall_seconds)

    def __truediv__(self, units: float) -> "Cost":
        return Cost(self.cpu_seconds / units, self.wall_seconds / units, self.memory_mb)


@dataclass(frozen=True, slots=True)
class CommandOutput:
    cost: Cost
    stdout: str


class CommandFailed(Exception):  # noqa: N818
    """A measured command ended with a non-zero exit status, so its cost would mean nothing."""

    def __init__(self, argv: Sequence[str], status: int, stderr: str) -> None:
        lines = stderr.strip().splitlines()
        super().__init__(
            f"{Path(argv[0]).name} {' '.join(argv[1:3])}: exit {status}: {lines[-1] if lines else ''}"
        )


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, so that the CPU of daemons is counted, too."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def measure_cost(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Cost:
    """Run a command to its end and return what it and its descendants spent."""
    return run_command(argv, cwd, env).cost


def run_for_output(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> str:
    """Run a command to its end and return what it printed."""
    return run_command(argv, cwd, env).stdout


def run_command(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> CommandOutput:
    """Run a command to its end. Raises CommandFailed when its exit status is not zero."""
    # Files, not pipes: a daemon that inherits a pipe would keep its reader waiting for ever.
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        started = time.monotonic()
        child = subprocess.Popen(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)
        _, status, usage = os.wait4(child.pid, 0)
        wall_seconds = time.monotonic() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        stdout.seek(0)
        stderr.seek(0)
        if child.returncode != 0:
            raise CommandFailed(argv, child.returncode, stderr.read())
        cpu_seconds = usage.ru_utime + usage.ru_stime + _orphans_cpu_seconds()
        return CommandOutput(Cost(cpu_seconds, wall_seconds, usage.ru_maxrss / 1024), stdout.read())


def median(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(each.cpu_seconds for each in costs),
        statistics.median(each.wall_seconds for each in costs),
        statistics.median(each.memory_mb for each in costs),
    )


Result = Cost | CommandFailed | None
"""None when there was nothing to measure."""


def measure_in_turns(
    repeats: int, ours: Callable[[], Cost], theirs: Callable[[], Cost] | None
) -> tuple[Result, Result]:
    """Run two commands in turns and return their medians; so a noisy minute affects both alike."""
    rounds = [(cost_or_failure(ours), theirs and cost_or_failure(theirs)) for _ in range(repeats + 1)]
    # The first round does not count: it writes byte code and warms the page cache.
    our_results, their_results = zip(*rounds[1:], strict=True)
    return _median_or_failure(our_results), _median_or_failure(their_results)


def cost_or_failure(run: Callable[[], Cost]) -> Cost | CommandFailed:
    """What the command cost, or how it failed."""
    try:
        return run()
    except CommandFailed as failure:
        return failure


def _orphans_cpu_seconds() -> float:
    """CPU seconds of descendants that left the command's process tree and have ended."""
    total = 0.0
    while True:
        try:
            pid, _, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return total
        if pid == 0:
            return total
        total += usage.ru_utime + usage.ru_stime


def _median_or_failure(results: Sequence[Result]) -> Result:
    costs: list[Cost] = []
    for result in results:
        if not isinstance(result, Cost):
            return result
        costs.append(result)
    return median(costs)
