"""A plug-in of pytest that reports the CPU time of the bodies of the tests: see `loopty_sdk.test_time`.

A short suite is measured several times. Each time starts from the same state, in a copy of the process that was
made before the first test: what one run has cached does not help the next.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import statistics
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_SECONDS = 2.0
_MOST_RUNS = 9
_UNSAFE_TO_COPY = ("torch", "tensorflow", "jax")
"""They start threads that a copy of the process does not have."""


def pytest_configure(config: pytest.Config) -> None:
    if folder := os.environ.get("LOOPTY_TEST_TIME"):
        config.pluginmanager.register(_Bodies(folder), "loopty-bodies")


class _Bodies:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._seconds = 0.0
        self._is_copy = False

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_call(self) -> Generator[None]:
        started_at = _cpu_seconds()
        yield
        self._seconds += _cpu_seconds() - started_at

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None]:
        if self._is_copy:
            yield
            return
        ask, answers = self._copy(session) if _may_copy(session) else (-1, -1)
        started_at = time.monotonic()
        yield
        took = time.monotonic() - started_at
        measured = [self._seconds]
        if ask >= 0:
            runs = 0 if session.testsfailed else min(int(_SECONDS / max(took, 0.001)), _MOST_RUNS)
            os.write(ask, bytes([runs]))
            os.close(ask)
            with os.fdopen(answers) as lines:
                measured += map(float, lines)
        report = {"seconds": statistics.median(measured), "repeated": True}
        Path(self._folder, f"{os.getpid()}.json").write_text(json.dumps(report))

    def _copy(self, session: pytest.Session) -> tuple[int, int]:
        """Keep a copy of the process as it is now, which runs the tests as often as it is told."""
        told, ask = os.pipe()
        answers, answer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        if os.fork():
            os.close(told)
            os.close(answer)
            return ask, answers
        os.close(ask)
        os.close(answers)
        for _ in range((os.read(told, 1) or b"\0")[0]):
            if not (child := os.fork()):
                self._run(session, answer)
            os.waitpid(child, 0)
        os._exit(0)

    def _run(self, session: pytest.Session, answer: int) -> None:
        """Run the tests once, in silence, and say what they took if they passed."""
        _silence()
        self._is_copy = True
        with contextlib.suppress(BaseException):
            session.config.hook.pytest_runtestloop(session=session)
            if not session.testsfailed:
                os.write(answer, f"{self._seconds}\n".encode())
        os._exit(0)


def _may_copy(session: pytest.Session) -> bool:
    options: Any = session.config.option
    is_spread = hasattr(session.config, "workerinput") or getattr(options, "dist", "no") != "no"
    return not is_spread and threading.active_count() == 1 and not any(map(sys.modules.get, _UNSAFE_TO_COPY))


def _cpu_seconds() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def _silence() -> None:
    """Let everything that goes to the output go nowhere, copies that pytest keeps of it included."""
    loud = {os.fstat(1)[1:3], os.fstat(2)[1:3]}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - the list's own descriptor is closed again
        with contextlib.suppress(OSError):
            if os.fstat(int(name))[1:3] in loud:
                os.dup2(nowhere, int(name))
