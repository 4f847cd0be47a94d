"""What a Ray cluster is asked for, and what runs on the node where it places a worker."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO
from urllib.parse import parse_qsl

from loopty.domain.errors import Misuse
from loopty.kit.foreign_text import strip_hidden
from loopty.kit.records import Record, field
from loopty.kit.temporary_folder import temporary_top


async def last_line(stream: asyncio.StreamReader) -> str:
    last = ""
    with contextlib.suppress(ValueError, OSError):
        while line := await stream.readline():
            last = line.decode(errors="replace").strip()[:500] or last
    return last


_OPTIONS = ("cpus", "gpus", "resources", "network")
_PRIVATE = "private"


class ClusterSpec(Record):
    """`ray:ADDRESS?…`."""

    host: str
    """The whole entry."""
    place: str
    workers: int = 1
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, host: str) -> ClusterSpec:
        """Parse the spec. Raises Misuse for options that there are not."""
        place, _, query = host.partition(":")[2].partition("?")
        options = dict(parse_qsl(query, keep_blank_values=True))
        workers = options.pop("workers", "1")
        if options.keys() - set(_OPTIONS) or not workers.isdecimal() or not int(workers):
            raise Misuse(
                f"[executor] hosts names {host!r}: after the question mark, give workers=NUMBER"
                f"{''.join(f', {name}=…' for name in _OPTIONS)}"
            )
        return cls(host, place, int(workers), options)

    def number(self, name: str, default: float) -> float:
        try:
            return float(self.options.get(name, default))
        except ValueError:
            raise Misuse(f"[executor] hosts: {name} is {self.options[name]!r}, not a number") from None

    def resources(self) -> dict[str, float]:
        """Parse the custom resources of `resources=NAME:AMOUNT,…`."""
        found: dict[str, float] = {}
        for part in filter(None, self.options.get("resources", "").split(",")):
            name, _, amount = part.rpartition(":")
            try:
                found[name] = float(amount)
            except ValueError:
                found[name] = 0.0
            if not name or not found[name] > 0:
                raise Misuse(
                    f"[executor] hosts names {self.host!r}: give resources=NAME:AMOUNT, as in resources=licence:1"
                )
        return found

    def is_private(self) -> bool:
        """Say whether the user says that nobody else can listen on the network between the nodes."""
        if (network := self.options.get("network", "")) not in ("", _PRIVATE):
            raise Misuse(f"[executor] hosts names {self.host!r}: network may only be {_PRIVATE!r}")
        return bool(network)


WORKER = ("-m", "loopty", "worker", "--trust", "--patience", "120")
"""A worker that finds no driver for two minutes ends: nobody else would end it."""
_POLL_SECONDS = 0.1
_END_SECONDS = 15.0
_LAST_BYTES = 2000
_PR_SET_PDEATHSIG = 1


class WorkerEnd(Record):
    """How a worker ended. It says nothing about any trial."""

    code: int
    text: str

    @property
    def is_kill(self) -> bool:
        """Say whether a signal ended it: the fault of its machine, not of the entry that asked for it."""
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
        return WorkerEnd(process.returncode, last_written(messages) or f"exit code {process.returncode}")


def _environment() -> dict[str, str]:
    """Return the environment without the scheduler's own variables: the token of a Ray cluster is among them."""
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


def last_written(messages: IO[bytes]) -> str:
    """Return the last line that a process has written there, without what a terminal obeys."""
    messages.seek(max(0, messages.seek(0, os.SEEK_END) - _LAST_BYTES))
    lines = strip_hidden(messages.read().decode(errors="replace")).strip().splitlines()
    return lines[-1].strip() if lines else ""


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
