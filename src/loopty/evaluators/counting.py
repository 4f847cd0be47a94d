"""Scores a command by the instructions that it executes, or by its CPU time where the clock confirms a count.

Valgrind reports to a pipe that only loopty reads, while the trial runs. Nothing can be taken back there, and a
trial with a missing or a second count of a process is refused. The counter shares its process with the candidate:
machine code that looks for it can still change it. Hence the clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Mapping

from loopty.domain.benchmark import Benchmark
from loopty.domain.counting import CLOCK, PROGRAMS, REPORTED_SCORE
from loopty.domain.launch import Mount
from loopty.domain.objective import SCORE, Direction
from loopty.domain.trial import Ending, Outcome
from loopty.engine.protocols import Stage, Trial
from loopty.evaluators.benchmark_runner import Command
from loopty.evaluators.contract import SandboxPaths
from loopty.evaluators.result import TrialOutput, parse_result
from loopty.kit.records import replace
from loopty.kit.untrusted_files import Unreadable
from loopty_sdk.counted import counted_command

_TIMES_ITSELF = "loopty_sdk.cpu_time"
"""A command that names this is timed and counted from there on: what comes before is preparation."""
_CPU_TIME = "cpu_time.json"
_CHUNK_BYTES = 1 << 16
_MOST_BYTES = 16 << 20
"""An honest log has a few hundred bytes for each process."""
_STARTED = re.compile(rb"==(\d+)== Cachegrind, a cache")
_COUNTED = re.compile(rb"==(\d+)== I\s+refs:\s+([\d,]+)\s*")


class CountLog:
    """What the counter has said about each process so far."""

    def __init__(self) -> None:
        self._started: Counter[bytes] = Counter()
        self._counts: dict[bytes, int] = {}
        self._rest = b""
        self._bytes = 0
        self._fault = ""

    def add(self, chunk: bytes) -> None:
        """Take what the counter has written."""
        self._bytes += len(chunk)
        if self._bytes > _MOST_BYTES:
            self._fault, self._rest = "the log of the counter is too long", b""
            return
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._add_line(line)

    def _add_line(self, line: bytes) -> None:
        if found := _STARTED.match(line):
            self._started[found[1]] += 1
        elif found := _COUNTED.fullmatch(line):
            if found[1] in self._counts:
                self._fault = "a process was counted twice"
            self._counts[found[1]] = int(found[2].replace(b",", b""))

    @property
    def instructions(self) -> int:
        """Sum the counts. A process that was forked, and starts no program, repeats what its parent did before."""
        return sum(self._counts.values())

    @property
    def programs(self) -> int:
        """Tell how many programs were started. What a process did before it started another is not counted."""
        return sum(self._started.values())

    def fault(self, usual_programs: float | None) -> str:
        """Tell why the count is not that of all processes; `usual_programs` are those of the baseline."""
        if self._fault:
            return self._fault
        if not self._counts:
            return "no process was counted"
        if uncounted := len(self._started.keys() - self._counts.keys()):
            return f"{uncounted} of {len(self._started)} processes ended without a count, as if killed"
        if usual_programs is not None and self.programs > usual_programs:
            known = f"it starts {self.programs} programs, and the baseline {usual_programs:g}"
            return f"{known}: what a process did before it started another program is not counted"
        return ""


@contextlib.asynccontextmanager
async def open_counter(
    stage: Stage, command: Command, benchmark: Benchmark, paths: SandboxPaths
) -> AsyncIterator[tuple[Command, CountLog]]:
    """Yield the command as it is counted, and the log of its counts."""
    folder, name, log = stage.outbox.beside("count"), secrets.token_hex(16), CountLog()
    with contextlib.ExitStack() as resources:
        descriptor = resources.enter_context(folder.handle(make=True))
        os.fchmod(descriptor, 0o755)
        os.mkfifo(name, dir_fd=descriptor)
        resources.callback(folder.remove, name)
        # Both ends, so that it does not end with the first process that closes it.
        pipe = os.open(name, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
        resources.callback(os.close, pipe)
        # Nobody else may read it. It is shown read-only, so that its mode stays; pipes are written all the same.
        os.chmod(name, 0o222, dir_fd=descriptor)

        def read() -> None:
            with contextlib.suppress(BlockingIOError):
                while chunk := os.read(pipe, _CHUNK_BYTES):
                    log.add(chunk)

        loop = asyncio.get_running_loop()
        loop.add_reader(pipe, read)
        resources.callback(loop.remove_reader, pipe)
        mount = Mount(folder.path_for_programs() / name, paths.count)
        yield _counted(command, benchmark, paths, mount), log
        read()


def _counted(command: Command, benchmark: Benchmark, paths: SandboxPaths, mount: Mount) -> Command:
    env = {**_same_hashes(benchmark), **command.env}
    argv = command.argv
    if _times_itself(benchmark):
        env["LOOPTY_COUNT"] = paths.count
    else:
        argv = tuple(counted_command(argv, paths.count))
    return replace(command, argv=argv, env=env, mounts=(*command.mounts, mount), needs_result=False)


def with_count(trial: Trial, outcome: Outcome, log: CountLog, benchmark: Benchmark) -> Outcome:
    """Make the count the score of a trial that finished."""
    if not outcome.is_finished:
        return replace(outcome, metrics={}, directions={}, step=None)  # what it reported is no count
    first = trial.root.outcome.metrics if trial.root.outcome else {}
    if fault := log.fault(first.get(PROGRAMS)):
        return replace(outcome, ending=Ending.FAILED, reason=f"not counted: {fault}", metrics={}, directions={})
    counts = {SCORE: float(log.instructions), PROGRAMS: float(log.programs)}
    # Of a command that times itself, nothing else is left: counting takes most of the time that it reports.
    others = {} if _times_itself(benchmark) else _reported(outcome.metrics)
    directions = {_renamed(name): one for name, one in outcome.directions.items() if _renamed(name) in others}
    return replace(outcome, metrics={**counts, **others}, directions={**directions, SCORE: Direction.MIN})


def timed(command: Command, benchmark: Benchmark, paths: SandboxPaths) -> Command:
    """Return the command as the clock confirms a count: the same work, without the counter."""
    env = {**_same_hashes(benchmark), **command.env}
    if _times_itself(benchmark):
        return replace(command, env=env)
    argv = ("python3", "-m", _TIMES_ITSELF, "--to", f"{paths.outbox}/{_CPU_TIME}", *command.argv)
    return replace(command, argv=argv, env=env, needs_result=False)


def with_cpu_time(stage: Stage, outcome: Outcome, benchmark: Benchmark) -> Outcome:
    """Make the CPU time of a trial that finished the metric that confirms counts. It has no score."""
    if not outcome.is_finished:
        return replace(outcome, metrics={}, directions={}, step=None)
    seconds, others = outcome.metrics.get(SCORE), dict[str, float]()
    if not _times_itself(benchmark):
        others = _reported(outcome.metrics)
        try:
            found = TrialOutput(stage.outbox, stage.folder).file(_CPU_TIME)
            seconds = parse_result(found).metrics[SCORE] if found else None
        except Unreadable:
            seconds = None
    if seconds is None:
        reason = "its CPU time is not known"
        return replace(outcome, ending=Ending.FAILED, reason=reason, metrics={}, directions={})
    return replace(outcome, metrics={CLOCK: seconds, **others}, directions={CLOCK: Direction.MIN})


def _times_itself(benchmark: Benchmark) -> bool:
    command = benchmark.command
    return _TIMES_ITSELF in (command if isinstance(command, str) else " ".join(command))


def _same_hashes(benchmark: Benchmark) -> dict[str, str]:
    """Give Python the same order of sets in each run, unless the task says otherwise."""
    return {"PYTHONHASHSEED": benchmark.env.get("PYTHONHASHSEED", "0")}


def _reported(metrics: Mapping[str, float]) -> dict[str, float]:
    return {_renamed(name): value for name, value in metrics.items()}


def _renamed(name: str) -> str:
    return REPORTED_SCORE if name == SCORE else name
