"""A Python function of the candidate that the benchmark calls like one of its own."""

from __future__ import annotations

import os
import sys
import time

from . import frames, values
from .asked import note_inputs, note_time
from .errors import CandidateError
from .wire import Deadline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType
    from typing import Any

    from .answer_checks import AnswerChecks
    from .function_process import FunctionProcess
    from .sessions import Session

_NONCE_BYTES = 16
_LONGEST_MESSAGE = 500


class Function:
    """A function in a process of its own, which starts with the first call and stays.

    When the candidate raises, the process stays; after any other failure the next call starts a new process.
    """

    def __init__(
        self, target: str, seconds: float, limit: int, process: FunctionProcess, checks: AnswerChecks | None = None
    ) -> None:
        self._target = target
        self._call_seconds = seconds
        self._limit = limit
        self._process = process
        self._checks = checks
        if checks is not None:
            _finish_at_exit(self)
        self._session: Session | None = None
        self._last_session: Session | None = None
        self._seconds = 0.0
        self._seconds_each: tuple[float, ...] = ()

    @property
    def seconds(self) -> float:
        """How long the last call took, by the benchmark's clock, without the start of the process."""
        note_time()
        return self._seconds

    @property
    def seconds_each(self) -> tuple[float, ...]:
        """How long each call of the last `call_many` took. Only the sum is certain: a candidate may work ahead."""
        note_time()
        return self._seconds_each

    @property
    def cpu_seconds(self) -> float:
        """The CPU time that all processes of the candidate took for the last call.

        Raises CandidateError where nothing measures it.
        """
        return self._last_session.cpu_seconds if self._last_session is not None else 0.0

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the function and return its value. Raises CandidateError when it gives none."""
        question, session = values.encode((args, named)), self._started_session()
        note_inputs([question])
        return self._ask(session, frames.CALL, question, self._call_seconds)

    def call_many(self, calls: Iterable[Sequence[Any]]) -> list[Any]:
        """Call the function once for each of these positional arguments; returns the values, in this order.

        All arguments travel in one message, and the candidate goes on from call to call without a stop. `seconds`
        and `cpu_seconds` are of all calls together. Raises CandidateError at the first call that gives no value.
        """
        questions = [values.encode((tuple(args), {})) for args in calls]
        if not questions:
            return []
        session = self._started_session()
        note_inputs(questions)
        try:
            return self._exchange_many(session, questions)
        except CandidateError as error:
            self._end_unless_raised(error)
            raise

    def close(self) -> None:
        """End the process, then check the answers, if a check was asked for. Raises CandidateError."""
        self._end_session()
        checks, self._checks = self._checks, None
        if checks is not None:
            checks.finish()

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def __enter__(self) -> Function:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._checks = None  # that error says enough
        self.close()

    def _started_session(self) -> Session:
        if self._session is None:
            session, seconds = self._process.start_session(), self._process.start_seconds
            try:
                self._ask(session, frames.LOAD, b"", seconds)
            except CandidateError as error:
                session.close()
                raise CandidateError(error.kind, f"{error} (while loading)") from None
            self._session = self._last_session = session
        return self._session

    def _ask(self, session: Session, kind: bytes, question: bytes, seconds: float) -> Any:
        try:
            return self._exchange(session, kind, question, seconds)
        except CandidateError as error:
            self._end_unless_raised(error)
            raise

    def _end_unless_raised(self, error: CandidateError) -> None:
        if error.kind != "raised":
            self._end_session()

    def _exchange(self, session: Session, kind: bytes, question: bytes, seconds: float) -> Any:
        nonce = os.urandom(_NONCE_BYTES)
        session.thaw()
        started_at = time.perf_counter()
        try:
            message = frames.frame(nonce, kind, question)
            kind, raw = self._answer(session, message, nonce, Deadline(seconds))
            self._seconds = time.perf_counter() - started_at
        finally:
            session.freeze()
        return self._value(session, kind, raw, question)

    def _exchange_many(self, session: Session, questions: list[bytes]) -> list[Any]:
        nonce = os.urandom(_NONCE_BYTES)
        message = frames.frame(nonce, frames.MANY, values.encode(questions))
        answers: list[tuple[bytes, bytes]] = []
        session.thaw()
        seconds_each: list[float] = []
        started_at = moment = time.perf_counter()
        try:
            for _ in questions:
                answers.append(self._answer(session, message, nonce, Deadline(self._call_seconds)))
                moment, before = time.perf_counter(), moment
                seconds_each.append(moment - before)
                message = b""
                if answers[-1][0] != frames.VALUE:
                    break  # the candidate's process stops here, too
        finally:
            session.freeze()
        self._seconds, self._seconds_each = moment - started_at, tuple(seconds_each)
        results = []
        for index, (kind, raw) in enumerate(answers):
            try:
                results.append(self._value(session, kind, raw, questions[index]))
            except CandidateError as error:
                raise CandidateError(error.kind, f"{error} (call {index + 1} of {len(questions)})") from None
        return results

    def _answer(self, session: Session, message: bytes, nonce: bytes, deadline: Deadline) -> tuple[bytes, bytes]:
        """Send the message; the kind of the next answer, and its content.

        The answer must repeat the nonce: an answer that was sent before the question does not know it.
        """
        head = session.exchange_until(message, frames.HEAD.size, deadline)
        size, returned, kind = frames.HEAD.unpack(head)
        if returned != nonce:
            raise session.end_with_error("garbage", "answered a question that was not asked")
        if size > self._limit:
            raise session.end_with_error("garbage", f"answered with {size} bytes; the limit is {self._limit}")
        return kind, session.exchange_until(b"", size, deadline)

    def _value(self, session: Session, kind: bytes, raw: bytes, question: bytes) -> Any:
        """The value of an answer. Raises CandidateError when it is none."""
        try:
            value = values.decode(raw)
        except values.NotData as error:
            raise session.end_with_error("garbage", f"answered with malformed data: {error}") from None
        if kind == frames.VALUE:
            if self._checks is not None and question:
                self._checks.note(question, raw)
            return value
        if kind == frames.RAISED and isinstance(value, str):
            raise CandidateError("raised", f"{self._target} raised {_one_line(value)}")
        raise session.end_with_error("garbage", "answered with neither a value nor an exception")


def _finish_at_exit(function: Function) -> None:
    """Check the answers also where the benchmark never closes the function."""
    import atexit

    def finish() -> None:
        try:
            function.close()
        except CandidateError as error:
            sys.stdout.flush()
            print(f"loopty_sdk.CandidateError: {error}", file=sys.stderr, flush=True)
            os._exit(1)  # an exception would not change the exit code any more

    atexit.register(finish)


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)[:_LONGEST_MESSAGE]
