"""A git command that stays open and answers many questions, without a process for each."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeVar

from loopty.domain.errors import LooptyError
from loopty.kit.work_end import at_work_end

T = TypeVar("T")


class GitError(LooptyError):
    """Git refused; carries its own message."""

    def __init__(self, verb: str, message: str, code: int = 0) -> None:
        """`code` is the exit status, where it was git that ended."""
        super().__init__(f"git {verb}: {message}")
        self.message, self.code = message, code


class GitSession:
    """A long-running git process. It starts with the first question.

    It ends when its input closes: with this object or this process.
    """

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._argv = argv
        self._env = env
        self._cwd = cwd
        self._lock = threading.Lock()
        self._child: list[subprocess.Popen[bytes]] = []
        self._end = functools.partial(_close, self._child)
        weakref.finalize(self, self._end)

    def ask(self, question: bytes, read_answer: Callable[[IO[bytes]], T]) -> T:
        """The answer of the command. Raises EOFError when it ended instead, and so did its replacement."""
        with self._lock:
            if self._child:
                with contextlib.suppress(EOFError):  # it may have been killed long ago
                    return self._exchange(self._child[0], question, read_answer)
            return self._exchange(self._start(), question, read_answer)

    def _exchange(
        self, child: subprocess.Popen[bytes], question: bytes, read_answer: Callable[[IO[bytes]], T]
    ) -> T:
        assert child.stdin
        assert child.stdout
        try:
            child.stdin.write(question)
            child.stdin.flush()
            return read_answer(child.stdout)
        except OSError:
            _close(self._child)
            raise EOFError from None
        except BaseException:
            _close(self._child)  # the rest of this answer would be read as part of the next one
            raise

    def _start(self) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            self._argv,
            env=self._env,
            cwd=self._cwd,
            umask=0o022,
            process_group=0,  # Ctrl-C is for the loop, which still asks questions
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._child.append(child)
        at_work_end(self._end)
        return child


def read_line(stream: IO[bytes]) -> bytes:
    """The next line, without its line break. Raises EOFError when it is incomplete."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    return line[:-1]


def read_exactly(stream: IO[bytes], size: int) -> bytes:
    """This number of bytes. Raises EOFError when there are fewer."""
    content = stream.read(size)
    if len(content) < size:
        raise EOFError
    return content


def _close(children: list[subprocess.Popen[bytes]]) -> None:
    while children:
        child = children.pop()
        for stream in (child.stdin, child.stdout):
            with contextlib.suppress(OSError):
                if stream:
                    stream.close()
        child.wait()
