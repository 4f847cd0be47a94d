"""Running git: one command at a time, or one that stays open and answers many questions; explicit directories, no
hooks, no fsmonitor.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeVar

from loopty.domain.errors import LooptyError
from loopty.git.folders import SAFE_CONFIG, environment_without_git
from loopty.kit.process import at_work_end

END_OF_OPTIONS = "--end-of-options"
"""Before every value that a record or a person gives: what follows is never read as an option."""
_NO_USER_CONFIG = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
}
"""For a stranger's repository: its `.gitattributes` may name programs, but only the user's files define them."""
LOOPTY = "loopty <loopty@localhost>"
"""The author of what loopty commits."""
_IDENTITY = {
    "GIT_AUTHOR_NAME": "loopty",
    "GIT_AUTHOR_EMAIL": "loopty@localhost",
    "GIT_COMMITTER_NAME": "loopty",
    "GIT_COMMITTER_EMAIL": "loopty@localhost",
}
_PROTOCOLS = "GIT_ALLOW_PROTOCOL"
"""Limits how git fetches, whatever a configuration allows: in a partial clone it fetches what is missing."""


class GitCommand:
    """Runs git in subprocesses for one git directory.

    In the repository of a stranger (`is_own` false) git knows none of the user's programs, so none can be chosen.
    """

    def __init__(self, git_dir: Path, is_own: bool = True) -> None:
        self.git_dir = git_dir
        self.settings = ""
        """The configuration as it was last listed."""
        self.env = {
            **environment_without_git(os.environ),
            **({} if is_own else _NO_USER_CONFIG),
            **_IDENTITY,
            "GIT_DIR": str(git_dir),
            "GIT_TERMINAL_PROMPT": "0",
            _PROTOCOLS: "" if is_own else "file",
            "LC_ALL": "C.UTF-8",
        }

    def allow_servers(self) -> None:
        """Let git fetch from the servers that the repository's configuration names."""
        self.env.pop(_PROTOCOLS)

    def open_session(self, *args: str, config: Iterable[str] = ()) -> GitSession:
        """Open a git process that stays open; it starts with the first question."""
        return GitSession(git_argv(*args, config=config), self.env, self.git_dir)

    def run(self, *args: str, **options: object) -> str:
        """Return the output of a git command as text. Raises GitError."""
        return self.run_bytes(*args, **options).decode(errors="surrogateescape")  # type: ignore[arg-type]

    def run_bytes(
        self,
        *args: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        into: IO[bytes] | None = None,
        config: Iterable[str] = (),
    ) -> bytes:
        """Return the output of a git command, empty if it goes `into` a file. Raises GitError."""
        result = subprocess.run(
            git_argv(*args, config=config),
            input=stdin,
            stdout=into or subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**self.env, **(env or {})},
            cwd=cwd or self.git_dir,
            umask=0o022,
            process_group=0,  # Ctrl-C is for the loop, which lets running commands finish
        )
        if result.returncode:
            raise GitError(args[0], result.stderr.decode(errors="replace").strip(), result.returncode)
        return result.stdout or b""


def git_argv(*args: str, config: Iterable[str] = ()) -> list[str]:
    """Return the command line of git with these arguments."""
    return ["git", *SAFE_CONFIG, *(part for setting in config for part in ("-c", setting)), *args]


T = TypeVar("T")
_MOST_ANSWERS = 1_000
"""Of one process: `git diff-tree` keeps every tree that it has read."""


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
        self._answers = 0
        self._end = functools.partial(_close, self._child)
        weakref.finalize(self, self._end)

    def ask(self, question: bytes, read_answer: Callable[[IO[bytes]], T]) -> T:
        """Return the answer of the command. Raises EOFError when it ended instead, and so did its replacement."""
        with self._lock:
            if self._answers == _MOST_ANSWERS:
                self._end()
            if self._child:
                self._answers += 1
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
        self._answers = 1
        at_work_end(self._end)
        return child


def read_line(stream: IO[bytes]) -> bytes:
    """Read the next line, without its line break. Raises EOFError when it is incomplete."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    return line[:-1]


def read_exactly(stream: IO[bytes], size: int) -> bytes:
    """Read this number of bytes. Raises EOFError when there are fewer."""
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
