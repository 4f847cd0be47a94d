"""The candidate as a plain child process, when a benchmark runs outside loopty: only its time is limited."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from .errors import CandidateError
from .process import Process, ProcessEnd


class ChildProcess(Process):
    """A candidate beside the benchmark; its environment says nothing about the trial."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("LOOPTY_", "EVO_", "PYTHON"))
        }
        self.channel, candidate_end = socket.socketpair()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - wait_or_kill closes it
        self._started = time.monotonic()
        with candidate_end:
            try:
                self._process = subprocess.Popen(
                    list(argv),
                    stdin=candidate_end.fileno(),
                    stdout=candidate_end.fileno(),
                    stderr=self._stderr,
                    cwd=_tree(),
                    env={**inherited, **env},
                    start_new_session=True,
                )
            except OSError as error:
                self.channel.close()
                self._stderr.close()
                raise CandidateError("refused", f"cannot start {argv[0]}: {error.strerror}") from None

    def cpu_seconds(self) -> float | None:
        # The clock of all threads of another process, as clock_getcpuclockid(3) makes it.
        try:
            return time.clock_gettime(~self._process.pid << 3 | 2)
        except OSError:
            return None

    def wait_or_kill(self, grace: float) -> ProcessEnd:
        cpu_before = _cpu_of_ended_children()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(grace)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        seconds = time.monotonic() - self._started
        with self._stderr as file:
            file.seek(0)
            errors = file.read().decode(errors="replace")
        sys.stderr.write(errors)
        lines = errors.strip().splitlines()
        cpu_seconds = _cpu_of_ended_children() - cpu_before
        last_line = lines[-1][:200] if lines else ""
        return ProcessEnd(code if code >= 0 else 128 - code, seconds, cpu_seconds, "", last_line)


def read_file(path: str, limit: int) -> bytes:
    """Read one of the candidate's files. Raises CandidateError when it is unreadable or larger than `limit`."""
    try:
        with (_tree() / path).open("rb") as file:
            raw = file.read(limit + 1)
    except OSError as error:
        raise CandidateError("refused", f"{path}: {error.strerror}") from None
    if len(raw) > limit:
        raise CandidateError("refused", f"{path} holds more than {limit} bytes")
    return raw


def _cpu_of_ended_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _tree() -> Path:
    return Path(os.environ.get("EVO_WORKTREE") or os.curdir)
