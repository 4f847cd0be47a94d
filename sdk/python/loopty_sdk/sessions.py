"""A session: a process of the candidate that stays, and the channel to it."""

from __future__ import annotations

import time

from .asked import note_inputs, note_time
from .errors import CandidateError, limit_text, no_cpu_time
from .start_candidate import start_process
from .wire import ChannelClosed, Deadline, OverTime, Wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from .process import Process, ProcessEnd

# The channel may close before the report of how the process ended arrives: wait this long for it.
_EXIT_NEWS_SECONDS = 1.0


class Session:
    """One process; it dies when the session closes, at its first failure, or with the benchmark."""

    def __init__(
        self,
        argv: Sequence[str],
        seconds: float,
        memory_mb: int | None = None,
        env: Mapping[str, str] | None = None,
        name: str = "",
        held: bool = False,
    ) -> None:
        """`held`: the process starts with the first exchange."""
        self._name = name or argv[0]
        self._exchange_seconds = seconds
        self._process: Process | None = start_process(argv, None, memory_mb, env, held)
        self._wire = Wire(self._process.channel)
        self._is_frozen = held
        self._cpu_before: float | None = 0.0
        self._cpu_after: float | None = 0.0
        self._seconds = 0.0

    @property
    def seconds(self) -> float:
        """How long the last exchange took, by the benchmark's clock."""
        note_time()
        return self._seconds

    @property
    def cpu_seconds(self) -> float:
        """The CPU time of all processes of the candidate in the last exchange; in the first one also before it.

        Raises CandidateError where nothing measures it.
        """
        note_time()
        if self._cpu_before is None or self._cpu_after is None:
            raise CandidateError("refused", no_cpu_time(self._name))
        return self._cpu_after - self._cpu_before

    def exchange(self, question: bytes, size: int) -> bytes:
        """Send the question and receive an answer of exactly `size` bytes.

        Bytes that the candidate sent before the question are refused: they would be an answer that took no time.
        """
        if self._process is not None and self._wire.has_input():
            raise self.end_with_error("garbage", "sent output before it was asked, or ended")
        return self._exchange_once(question, size)

    def send(self, data: bytes) -> None:
        self._exchange_once(data, 0)

    def receive(self, size: int) -> bytes:
        """The next `size` bytes, whenever they were sent."""
        return self._exchange_once(b"", size)

    def _exchange_once(self, question: bytes, size: int) -> bytes:
        note_inputs([question])
        self.thaw()
        try:
            return self.exchange_until(question, size, Deadline(self._exchange_seconds))
        finally:
            self.freeze()

    def freeze(self) -> None:
        """Stop the candidate until the next exchange: it must not slow down what the benchmark does meanwhile."""
        if self._process is not None and not self._is_frozen:
            self._process.freeze()
            self._is_frozen = True
            self._cpu_after = self._process.cpu_seconds()

    def thaw(self) -> None:
        if self._process is not None and self._is_frozen:
            self._process.thaw()
            self._is_frozen = False
            self._cpu_before = self._process.cpu_seconds()

    def exchange_until(self, question: bytes, size: int, deadline: Deadline) -> bytes:
        """Send the question and receive exactly `size` bytes before the deadline. Raises CandidateError."""
        if self._process is None:
            raise CandidateError("refused", f"{self._name} has ended")
        started_at = time.perf_counter()
        try:
            answer = self._wire.exchange(question, size, deadline)
        except ChannelClosed:
            raise self.end_with_error("crashed", "ended without an answer") from None
        except OverTime:
            raise self.end_with_error("time", f"took more than {deadline.seconds:g} s") from None
        self._seconds = time.perf_counter() - started_at
        return answer

    def end_with_error(self, kind: str, message: str) -> CandidateError:
        """End the process and return the error to raise: the limit that it exceeded, or this kind and message."""
        end = self._end(_EXIT_NEWS_SECONDS if kind == "crashed" else 0.0)
        if end and end.stop:
            return CandidateError(end.stop, f"{self._name} {limit_text(end.stop)}")
        if end and kind == "crashed":
            message += f" (exit code {end.code}{': ' + end.stderr if end.stderr else ''})"
        return CandidateError(kind, f"{self._name} {message}")

    def close(self) -> None:
        self._end(0.0)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _end(self, grace: float) -> ProcessEnd | None:
        process, self._process = self._process, None
        if process is None:
            return None
        try:
            return process.wait_or_kill(grace)
        finally:
            self._wire.close()
