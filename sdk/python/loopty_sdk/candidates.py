"""`candidate`: how a benchmark runs the code that it scores, always outside its own process."""

from __future__ import annotations

# What only one kind of call needs is imported by that call: a short trial notices each file.
from .asked import note_inputs, note_time
from .errors import CandidateError, limit_text, no_cpu_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .calls import Function
    from .process import ProcessEnd
    from .sessions import Session

LARGEST_ANSWER = 16 << 20


class CommandResult:
    """What a command of the candidate printed, and how it ended.

    `stderr` is the last line of its standard error.
    """

    def __init__(self, name: str, stdout: bytes, end: ProcessEnd) -> None:
        self._name = name
        self._cpu_seconds = end.cpu_seconds
        self.stdout = stdout
        self.code = end.code
        self._seconds = end.seconds
        self.stderr = end.stderr

    @property
    def seconds(self) -> float:
        """From its start to its end, by the clock of the process that started it."""
        note_time()
        return self._seconds

    @property
    def cpu_seconds(self) -> float:
        """The CPU time of all its processes. Raises CandidateError where nothing measured it."""
        note_time()
        if self._cpu_seconds is None:
            raise CandidateError("refused", no_cpu_time(self._name))
        return self._cpu_seconds


class Candidate:
    """The code under test, in a process of its own.

    When loopty runs the benchmark with `benchmark.isolated`, that process has a sandbox of its own. Outside loopty
    it is a plain child, so that a benchmark can be developed unchanged. Memory limits hold only in a sandbox.
    """

    def __call__(
        self,
        target: str,
        *,
        seconds: float = 10.0,
        memory_mb: int | None = None,
        start_seconds: float = 60.0,
        limit: int = LARGEST_ANSWER,
        env: Mapping[str, str] | None = None,
        check: Callable[..., Any] | None = None,
        sample: float = 1.0,
        tolerance: float = 0.0,
        root: str | None = None,
        python: str | None = None,
    ) -> Function:
        """A Python function of the candidate: `program.py:solve`, or `package.module:solve`.

        Packages are looked for in the top folder of the candidate's files and in `src`, or in `root` alone.
        `python` is the interpreter, such as `.venv/bin/python` of the candidate; by default it is the benchmark's.
        `seconds` limits each call, `start_seconds` the loading of the module, `limit` the bytes of an answer.
        `check` is a reference: when the function closes, a random share of the answers (`sample`, at least one) is
        compared with what the reference returns, numbers within `tolerance`. An answer that differs is a
        CandidateError of kind `wrong`.
        """
        from .calls import Function
        from .function_process import FunctionProcess

        checks = None
        if check is not None:
            from .answer_checks import AnswerChecks

            checks = AnswerChecks(target, check, sample, tolerance)
        process = FunctionProcess(target, root, python, memory_mb, start_seconds, env)
        return Function(target, seconds, limit, process, checks)

    def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",
        seconds: float = 10.0,
        memory_mb: int | None = None,
        limit: int = LARGEST_ANSWER,
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        """Run a command of the candidate to its end; a non-zero exit code is an answer, not an error."""
        from .start_candidate import start_process
        from .wire import Deadline, OverTime, Wire

        process = start_process(argv, seconds, memory_mb, env)
        note_inputs([input])
        wire = Wire(process.channel)
        try:
            printed = wire.drain(input, limit, Deadline(seconds))
            end = process.wait_or_kill(seconds) if len(printed) <= limit else process.wait_or_kill(0.0)
        except OverTime:
            process.wait_or_kill(0.0)
            raise CandidateError("time", f"{argv[0]} took more than {seconds:g} s") from None
        finally:
            wire.close()
        if len(printed) > limit:
            raise CandidateError("output", f"{argv[0]} printed more than {limit} bytes")
        if end.stop:
            raise CandidateError(end.stop, f"{argv[0]} {limit_text(end.stop)}")
        return CommandResult(argv[0], printed, end)

    def open(
        self,
        argv: Sequence[str],
        *,
        seconds: float = 10.0,
        memory_mb: int | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Session:
        """Start a command of the candidate that stays, for your own protocol; `seconds` limits each exchange.

        In a trial it starts with the first exchange, so that it cannot slow down what comes before.
        """
        from .sessions import Session

        return Session(argv, seconds, memory_mb, env, held=True)

    def read(self, path: str, *, limit: int = LARGEST_ANSWER) -> str:
        """Read one of the candidate's files as text; bytes that are not UTF-8 are replaced."""
        from .start_candidate import read_file

        return read_file(path, limit).decode(errors="replace")


candidate = Candidate()
