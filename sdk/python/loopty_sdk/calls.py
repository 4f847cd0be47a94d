"""A Python function of the candidate that the benchmark calls like one of its own."""

from __future__ import annotations

import os
import sys
import time

from . import frames, values
from .errors import CandidateError
from .sessions import Session
from .wire import Deadline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Any

    from .answer_checks import AnswerChecks

_NONCE_BYTES = 16
_LONGEST_MESSAGE = 500
_SERVER = os.path.join(os.path.dirname(__file__), "serve.py")  # noqa: PTH118, PTH120 - pathlib is slow to import
# Stands for the same file in a sandbox: the candidate sees another file system, and loopty knows the path there.
_SERVER_IN_SANDBOX = "loopty:serve"


class Function:
    """A function in a process of its own, which starts with the first call and stays.

    When the candidate raises, the process stays; after any other failure the next call starts a new process.
    """

    def __init__(
        self,
        target: str,
        seconds: float,
        memory_mb: int | None,
        start_seconds: float,
        limit: int,
        env: Mapping[str, str] | None,
        checks: AnswerChecks | None = None,
    ) -> None:
        if not all(target.rpartition(":")):
            raise ValueError(f"{target!r} does not name a function: write it as 'program.py:solve'")
        self._target = target
        self._call_seconds = seconds
        self._memory_mb = memory_mb
        self._start_seconds = start_seconds
        self._limit = limit
        self._env = env
        self._checks = checks
        if checks is not None:
            _finish_at_exit(self)
        self._session: Session | None = None
        self.seconds = 0.0
        """How long the last call took, by the benchmark's clock, without the start of the process."""

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the function and return its value. Raises CandidateError when it gives none."""
        question = values.encode((args, named))
        if self._session is None:
            self._session = self._start_session()
        return self._ask(self._session, frames.CALL, question, self._call_seconds)

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

    def _start_session(self) -> Session:
        server = _SERVER_IN_SANDBOX if os.environ.get("LOOPTY_CANDIDATE") else _SERVER
        command = (sys.executable or "python3", "-I", "-B", server, self._target)
        session = Session(command, self._start_seconds, self._memory_mb, self._env, name=self._target)
        try:
            self._ask(session, frames.LOAD, b"", self._start_seconds)
        except CandidateError as error:
            session.close()
            raise CandidateError(error.kind, f"{error} (while loading)") from None
        return session

    def _ask(self, session: Session, kind: bytes, question: bytes, seconds: float) -> Any:
        try:
            return self._exchange(session, kind, question, seconds)
        except CandidateError as error:
            if error.kind != "raised":
                self._end_session()
            raise

    def _exchange(self, session: Session, kind: bytes, question: bytes, seconds: float) -> Any:
        # The answer must repeat the nonce: an answer that was sent before the question does not know it.
        nonce = os.urandom(_NONCE_BYTES)
        session.thaw()
        started_at = time.perf_counter()
        deadline = Deadline(seconds)
        try:
            head = session.exchange_until(frames.frame(nonce, kind, question), frames.HEAD.size, deadline)
            size, returned, kind = frames.HEAD.unpack(head)
            if returned != nonce:
                raise session.end_with_error("garbage", "answered a question that was not asked")
            if size > self._limit:
                raise session.end_with_error("garbage", f"answered with {size} bytes; the limit is {self._limit}")
            raw = session.exchange_until(b"", size, deadline)
            self.seconds = time.perf_counter() - started_at
        finally:
            session.freeze()
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
