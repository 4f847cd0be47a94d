"""Runs `loopty worker` on the node where a scheduler has placed it, and leaves nothing behind there."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from loopty.kit.temporary_top import temporary_top

WORKER = ("-m", "loopty", "worker", "--trust", "--patience", "120")
"""A worker that finds no driver for two minutes ends: nobody else would end it."""
_POLL_SECONDS = 0.1
_END_SECONDS = 15.0
_LAST_BYTES = 2000
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class WorkerEnd:
    """How a worker ended. It says nothing about any trial."""

    code: int
    text: str

    @property
    def is_kill(self) -> bool:
        """Whether a signal ended it: the fault of its machine, not of the entry that asked for it."""
        return self.code < 0


def run_worker(url: str, options: Sequence[str] = (), program: Sequence[str] = WORKER) -> WorkerEnd:
    """Run a worker on the machine where this is called, until it ends; it dies with this process."""
    with tempfile.TemporaryFile(dir=temporary_top()) as messages:
        process = subprocess.Popen(
            [sys.executable, *program, *options],
            env={**_environment(), "LOOPTY_WORKER_URL": url},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=messages,
            preexec_fn=_die_with_parent,
        )
        try:
            # A scheduler that interrupts this process is heard between two looks, not during a wait.
            while process.poll() is None:
                time.sleep(_POLL_SECONDS)
        finally:
            _end(process)
        return WorkerEnd(process.returncode, _last_line(messages) or f"exit code {process.returncode}")


def _environment() -> dict[str, str]:
    """Without the scheduler's own variables: the token of a Ray cluster is among them."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "PYTHONBREAKPOINT"))}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let the worker kill its trial, then itself; kill it where it does not."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _last_line(messages: IO[bytes]) -> str:
    messages.seek(max(0, messages.seek(0, os.SEEK_END) - _LAST_BYTES))
    lines = messages.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
