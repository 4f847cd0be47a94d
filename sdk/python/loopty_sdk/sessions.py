"""A process of the candidate that stays, behind a pipe."""

from __future__ import annotations

import time

from .errors import CandidateError
from .process import Ended, Process
from .starting import started
from .wire import Closed, Deadline, OverTime, Wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

# Who finds the channel closed may be faster than the news of how the process ended.
_NEWS_SECONDS = 1.0
_STOPS = {
    "memory": "used too much memory",
    "output": "printed too much",
    "disk": "wrote too much to disk",
    "time": "ran out of time",
}


class Session:
    """One process; it is dead when the session is closed, when it failed once, or with the benchmark."""

    def __init__(
        self,
        argv: Sequence[str],
        seconds: float,
        memory_mb: int | None = None,
        env: Mapping[str, str] | None = None,
        name: str = "",
    ) -> None:
        self._name = name or argv[0]
        self._allowed = seconds
        self._process: Process | None = started(argv, None, memory_mb, env)
        self._wire = Wire(self._process.channel)
        self.seconds = 0.0
        """What the last exchange took, by our clock."""

    def exchange(self, question: bytes, size: int) -> bytes:
        """Send the question and receive an answer of exactly `size` bytes.

        What the candidate sent before it was asked is refused: it would be an answer that took no time.
        """
        if self._process is not None and self._wire.spoken():
            raise self.failed("garbage", "spoke before it was asked, or ended")
        return self.exchanged(question, size, Deadline(self._allowed))

    def send(self, data: bytes) -> None:
        self.exchanged(data, 0, Deadline(self._allowed))

    def receive(self, size: int) -> bytes:
        """The next `size` bytes, whenever they were sent."""
        return self.exchanged(b"", size, Deadline(self._allowed))

    def exchanged(self, question: bytes, size: int, deadline: Deadline) -> bytes:
        """Send and receive until the deadline."""
        if self._process is None:
            raise CandidateError("refused", f"{self._name} has ended")
        started_at = time.perf_counter()
        try:
            answer = self._wire.exchange(question, size, deadline)
        except Closed:
            raise self.failed("crashed", "ended without an answer") from None
        except OverTime:
            raise self.failed("time", f"took more than {deadline.seconds:g} s") from None
        self.seconds = time.perf_counter() - started_at
        return answer

    def failed(self, kind: str, what: str) -> CandidateError:
        """What is to be said of the candidate, whose process ends here."""
        ended = self._end(_NEWS_SECONDS if kind == "crashed" else 0.0)
        if ended and ended.stop in _STOPS:
            return CandidateError(ended.stop, f"{self._name} {_STOPS[ended.stop]}")
        if ended and kind == "crashed":
            what += f" (exit code {ended.code}{': ' + ended.stderr if ended.stderr else ''})"
        return CandidateError(kind, f"{self._name} {what}")

    def close(self) -> None:
        self._end(0.0)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _end(self, grace: float) -> Ended | None:
        process, self._process = self._process, None
        if process is None:
            return None
        try:
            return process.killed(grace)
        finally:
            self._wire.close()


def stopped(name: str, ended: Ended) -> CandidateError:
    """What is to be said of a candidate that a bound has ended."""
    return CandidateError(ended.stop, f"{name} {_STOPS.get(ended.stop, 'was stopped')}")
