"""`candidate`: all that a benchmark does with the code that it scores, none of it in its own process."""

from __future__ import annotations

from .calls import Function
from .errors import CandidateError
from .sessions import Session, limit_error
from .starting import read_file, start_process
from .wire import Deadline, OverTime, Wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LARGEST_ANSWER = 16 << 20


class CommandResult:
    """What a command of the candidate printed, and how it ended.

    `seconds` is from its start to its end, by the clock of whoever ran it; `stderr` is the last line there.
    """

    def __init__(self, stdout: bytes, code: int, seconds: float, stderr: str) -> None:
        self.stdout = stdout
        self.code = code
        self.seconds = seconds
        self.stderr = stderr


class Candidate:
    """The code under test, in a process of its own.

    Run by loopty with `benchmark.isolated`, that process is in a sandbox of its own; by hand it is a plain
    child, so that a benchmark can be developed as it is. Bounds on memory hold in a sandbox only.
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
    ) -> Function:
        """A Python function of the candidate: `program.py:solve`, or `package.module:solve`.

        `seconds` bounds each call, `start_seconds` the loading of the module, `limit` the bytes of an answer.
        """
        return Function(target, seconds, memory_mb, start_seconds, limit, env)

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
        process = start_process(argv, seconds, memory_mb, env)
        wire = Wire(process.channel)
        try:
            printed = wire.drain(input, limit, Deadline(seconds))
            ended = process.wait_or_kill(seconds) if len(printed) <= limit else process.wait_or_kill(0.0)
        except OverTime:
            process.wait_or_kill(0.0)
            raise CandidateError("time", f"{argv[0]} took more than {seconds:g} s") from None
        finally:
            wire.close()
        if len(printed) > limit:
            raise CandidateError("output", f"{argv[0]} printed more than {limit} bytes")
        if ended.stop:
            raise limit_error(argv[0], ended)
        return CommandResult(printed, ended.code, ended.seconds, ended.stderr)

    def open(
        self,
        argv: Sequence[str],
        *,
        seconds: float = 10.0,
        memory_mb: int | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Session:
        """A command of the candidate that stays, for a protocol of your own; `seconds` bounds each exchange."""
        return Session(argv, seconds, memory_mb, env)

    def read(self, path: str, *, limit: int = LARGEST_ANSWER) -> str:
        """One of the candidate's files as text; bytes that are no UTF-8 are replaced."""
        return read_file(path, limit).decode(errors="replace")


candidate = Candidate()
