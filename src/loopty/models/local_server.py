"""A GGUF file served on loopback by a child process: native code that crashes ends that alone."""

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from loopty.domain.model import ModelFault

_KEPT_LINES, _LONGEST_LINE = 40, 300
_CLOCK = re.compile(r"^[\d.]+ [A-Z] ")
"""What the library puts before each line of its log."""
_KEY = re.compile(r"(?i)(key|token|secret|password|credentials?)$")
_DYING_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class LocalServerSpec:
    """What is served, and with what."""

    file: Path
    context_tokens: int
    threads: int
    parallel: int


@dataclass(frozen=True, slots=True)
class LocalAddress:
    """Where the file is served, and the key without which nobody gets an answer there."""

    port: int
    key: str = field(repr=False)


class LocalServer:
    """Starts its child at the first use, and anew when it died."""

    def __init__(self, order: LocalServerSpec) -> None:
        self._order = order
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._address: LocalAddress | None = None
        self._log: deque[str] = deque(maxlen=_KEPT_LINES)

    def address(self) -> LocalAddress:
        """Where it is served; loads the file if need be, which takes a while. Raises ModelFault."""
        with self._lock:
            if self._process is None or self._process.poll() is not None or self._address is None:
                self.stop()
                self._address = self._start()
            return self._address

    @property
    def pid(self) -> int | None:
        """Of the child, while there is one."""
        return self._process.pid if self._process else None

    def stop(self) -> str:
        """End the child, if there is one; how it ended, and the last that it said."""
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
        return f"{ended}; the last that it said: {self._log[-1]}" if self._log else ended

    def _start(self) -> LocalAddress:
        key = secrets.token_urlsafe(24)
        self._log.clear()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "loopty.models.local_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**_without_keys(os.environ), "GGML_NO_BACKTRACE": "1"},
            start_new_session=True,  # Ctrl-C is for the loop, which lets what runs come to its end
        )
        self._process = process
        assert process.stdin
        assert process.stdout
        assert process.stderr
        listening = threading.Thread(target=self._read_log, args=(process.stderr,), daemon=True)
        listening.start()
        order = {"file": str(self._order.file), "key": key, **self._numbers()}
        try:
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # what it says below tells more
        port = process.stdout.readline()
        if port.strip():
            return LocalAddress(int(port), key)
        listening.join(_DYING_SECONDS)
        code = process.wait(_DYING_SECONDS)
        why = self._log[0] if self._log else f"code {code}"
        self.stop()
        # What was killed may have better luck; what gave up by itself will do so again.
        raise ModelFault(f"{self._order.file} could not be loaded: {why}", transient=code < 0)

    def _numbers(self) -> dict[str, int]:
        return {
            "context": self._order.context_tokens,
            "threads": self._order.threads,
            "parallel": self._order.parallel,
        }

    def _read_log(self, stderr: IO[bytes]) -> None:
        """Keep what the child says, the last lines of it."""
        with stderr:
            for line in stderr:
                if text := _CLOCK.sub("", line.decode(errors="replace")).strip():
                    self._log.append(text[:_LONGEST_LINE])


def _without_keys(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what it has no need of: it reads files that came from anywhere."""
    return {name: value for name, value in environ.items() if not _KEY.search(name)}


@functools.cache
def server_for(spec: LocalServerSpec) -> LocalServer:
    """The server of this file in this process: whoever orders the same shares it."""
    server = LocalServer(spec)
    atexit.register(server.stop)
    return server
