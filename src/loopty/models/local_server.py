"""Serves a GGUF file on loopback from a child process: a crash of native code ends only the child."""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from loopty.domain.model import ModelFault
from loopty.kit.dataclass import Record, dataclass, field

_LOG_LINES, _LONGEST_LINE = 40, 300
_LOG_PREFIX = re.compile(r"^[\d.]+ [A-Z] ")
"""The prefix of each line in the library's log."""
_SECRET_NAME = re.compile(r"(?i)(key|token|secret|password|credentials?)$")
_EXIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class LocalServerSpec(Record):
    """The file to serve, and the resources for it."""

    file: Path
    context_tokens: int
    threads: int
    parallel: int


@dataclass(frozen=True, slots=True)
class LocalAddress(Record):
    """Where the file is served, and the key that the server asks for."""

    port: int
    key: str = field(repr=False)


class LocalServer:
    """Starts its child process at first use, and again when the child has died."""

    def __init__(self, spec: LocalServerSpec) -> None:
        self._spec = spec
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._address: LocalAddress | None = None
        self._log: deque[str] = deque(maxlen=_LOG_LINES)

    def address(self) -> LocalAddress:
        """Where the file is served; starts the child if need be, which takes a while. Raises ModelFault."""
        with self._lock:
            if self._process is None or self._process.poll() is not None or self._address is None:
                self.stop()
                self._address = self._start()
            return self._address

    @property
    def pid(self) -> int | None:
        """The process id of the child, or None when there is no child."""
        return self._process.pid if self._process else None

    def stop(self) -> str:
        """End the child, if there is one; returns how it ended, and its last line of output."""
        process, self._process, self._address = self._process, None, None
        if process is None:
            return "it was stopped"
        try:
            code = process.wait(0)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()
        ended = f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"it ended with code {code}"
        return f"{ended}; its last output: {self._log[-1]}" if self._log else ended

    def _start(self) -> LocalAddress:
        key = secrets.token_urlsafe(24)
        self._log.clear()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "loopty.models.local_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**_without_keys(os.environ), "GGML_NO_BACKTRACE": "1"},
            start_new_session=True,  # Ctrl-C is for the loop, which lets running trials finish
        )
        self._process = process
        assert process.stdin
        assert process.stdout
        assert process.stderr
        reader = threading.Thread(target=self._read_log, args=(process.stderr,), daemon=True)
        reader.start()
        order = {"file": str(self._spec.file), "key": key, **self._numbers()}
        try:
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # its output, read below, says more
        answer = process.stdout.readline().decode(errors="replace").strip()
        if answer.isdecimal():
            return LocalAddress(int(answer), key)
        reader.join(_EXIT_SECONDS)
        code = process.wait(_EXIT_SECONDS)
        # The library says more than its exception, but writes it from a thread, often after the exception.
        reason = self._log[0] if self._log else answer[:_LONGEST_LINE] or f"code {code}"
        self.stop()
        # A killed child may succeed next time; one that gave up by itself will do so again.
        raise ModelFault(f"{self._spec.file} could not be loaded: {reason}", transient=code < 0)

    def _numbers(self) -> dict[str, int]:
        return {
            "context": self._spec.context_tokens,
            "threads": self._spec.threads,
            "parallel": self._spec.parallel,
        }

    def _read_log(self, stderr: IO[bytes]) -> None:
        """Keep the last lines of the child's output."""
        with stderr:
            for line in stderr:
                if text := _LOG_PREFIX.sub("", line.decode(errors="replace")).strip():
                    self._log.append(text[:_LONGEST_LINE])


def _without_keys(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without keys, which the child does not need: it reads files from anywhere."""
    return {name: value for name, value in environ.items() if not _SECRET_NAME.search(name)}


@functools.cache
def server_for(spec: LocalServerSpec) -> LocalServer:
    """The server of this file in this process, shared by all callers with the same spec."""
    server = LocalServer(spec)
    atexit.register(server.stop)
    return server
