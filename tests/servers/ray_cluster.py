"""A Ray cluster of several nodes on this machine, for tests: started by commands, stopped by process ids."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

_START_SECONDS = 200
_STORE_BYTES = 80_000_000
_PORTS = (
    "dashboard-agent-grpc-port",
    "dashboard-agent-listen-port",
    "metrics-export-port",
    "runtime-env-agent-port",
)
# Ray gives up on processes that start slowly, as they do on a busy machine.
_PATIENCE = {
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_agent_register_timeout_ms": "300000",
}


class RayCluster:
    """Its processes are those whose command line names its folder; agents of a node end by themselves after it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lr", dir="/tmp"))  # Ray's sockets need a short path
        self.address = f"127.0.0.1:{_free_port()}"
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RAY_TMPDIR": str(self.folder),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            **_PATIENCE,
            "RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": str(_STORE_BYTES),
        }

    def start(self, command: str, *options: str) -> None:
        """Start a node by a command of the page, with options for tests. Skips the test where Ray gives up."""
        until, known = time.monotonic() + _START_SECONDS, set(self.processes())
        said = ""
        while (left := until - time.monotonic()) > 0:
            # Ports by number: a node gives up on an agent that does not say its port within seconds.
            ports = (f"--{name}={_free_port()}" for name in _PORTS)
            line = ["sh", "-c", " ".join((command, *options, *ports))]
            with contextlib.suppress(subprocess.TimeoutExpired):
                done = subprocess.run(line, env=self.environment, capture_output=True, text=True, timeout=left)
                if not done.returncode:
                    return
                said = (done.stdout + done.stderr).strip()[-300:]
            self._kill(lambda: [pid for pid in self.processes() if pid not in known])
        pytest.skip(f"Ray did not start in {_START_SECONDS} s on this busy machine: {said}")

    def add_node(self, resource: str) -> int:
        """A node with one unit of a custom resource; returns the process id of its raylet."""
        known = set(self.processes("raylet/raylet"))
        options = ("--num-cpus=1", f"--resources='{{\"{resource}\": 1}}'")
        self.start(f"ray start --address={self.address}", *options)
        (raylet,) = set(self.processes("raylet/raylet")) - known
        return raylet

    def processes(self, *words: str) -> list[int]:
        """The processes of the cluster whose command line has all these words."""
        return [pid for pid in _pids() if str(self.folder) in (line := _line(pid)) and _has(line, words)]

    def remove(self) -> None:
        """Kill all its processes, and remove its files."""
        self._kill(self.processes)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _kill(self, find: Callable[[], list[int]]) -> None:
        until = time.monotonic() + 60
        while (left := find()) and time.monotonic() < until:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)


def _has(line: str, words: Sequence[str]) -> bool:
    return all(word in line for word in words)


def _pids() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]


def _line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def _free_port() -> int:
    """Above the range from which Ray takes ports for its workers."""
    while True:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = int(found.getsockname()[1])
        if port > 20000:
            return port
