"""loopty's side of the launcher: a resident process that starts the first process of each trial."""

from __future__ import annotations

import contextlib
import os
import platform
import select
import socket
import subprocess
import sys
import threading
import weakref
from pathlib import Path

from loopty.domain.launch import SandboxError
from loopty.sandboxes import seccomp, trial_view
from loopty.sandboxes.namespace_launcher.launch_order import (
    FAILED,
    WITH_NETWORK,
    WITHOUT_NETWORK,
    LauncherOrder,
    dump_order,
    send_message,
)
from loopty.sandboxes.oom_score import high_oom_score
from loopty.sandboxes.trial_user import trial_owner

_START = """
import sys
sys.path.append(sys.argv[1])
from loopty.sandboxes.namespace_launcher.launcher_program import main
main(int(sys.argv[2]), int(sys.argv[3]))
"""
_PACKAGES = str(Path(__file__).resolve().parents[2])
_MESSAGE_BYTES = 1 << 12
_DYING_SECONDS = 1.0


class Launcher:
    """Starts the resident process when it is needed, and again when it has died. Any thread may use it.

    The process ends when this object or this process does: the kernel closes the connection in both cases.
    """

    def __init__(self) -> None:
        self._call_filter = seccomp.program(platform.machine())
        self._lock = threading.Lock()
        self._resident: _ResidentProcess | None = None

    def start_trial(self, *, network: bool) -> socket.socket:
        """Start the first process of a trial and return the connection to it.

        The launcher sends the process's pid with a pidfd. When the launcher has died, the connection is at its
        end. Raises SandboxError when the launcher cannot be started.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._lock:
            for _ in range(2):
                if self._resident is None or not self._resident.is_alive():
                    self._resident = _ResidentProcess(self._call_filter)
                with contextlib.suppress(ConnectionError):
                    self._resident.hand_over(theirs.fileno(), network=network)
                    return ours
        # The caller finds the connection at its end, as when the launcher dies a moment later.
        return ours

    def prepare(self) -> int | None:
        """Start the resident process, for this process and those forked from it, unless it runs already.

        Returns the descriptor of the connection to it, None where it cannot be started.
        """
        with self._lock:
            resident = self._resident
            if resident is not None and not resident.is_alive():
                if resident.failure():
                    return None
                self._resident = resident = None
            if resident is None:
                with contextlib.suppress(SandboxError):
                    self._resident = resident = _ResidentProcess(self._call_filter)
            return None if resident is None else resident.descriptor

    def failure(self) -> str:
        """Why the resident process could not begin; empty when it could, or was killed."""
        with self._lock:
            return "" if self._resident is None else self._resident.failure()

    def forget_dying(self) -> None:
        """Let the next trial start the process again: it has closed its side, but may still seem alive."""
        with self._lock:
            if self._resident is not None and self._resident.is_dying():
                self._resident = None


class _ResidentProcess:
    """The resident process and the connection over which it gets trials to start."""

    def __init__(self, call_filter: bytes | None) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        order = dump_order(_order(call_filter))
        try:
            with theirs, high_oom_score():
                process = subprocess.Popen(
                    (sys.executable, "-I", "-S", "-c", _START, _PACKAGES, str(order), str(theirs.fileno())),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(order, theirs.fileno()),
                    env={},
                    cwd="/",
                    start_new_session=True,
                )
        except OSError as error:
            ours.close()
            raise SandboxError(f"cannot start {sys.executable}: {error.strerror}") from error
        finally:
            os.close(order)
        self._connection = ours
        self._process = process
        self._failure = ""
        weakref.finalize(self, _end, ours, process, os.getpid())

    @property
    def descriptor(self) -> int:
        """The connection's. The process ends when every process that has it open has ended."""
        return self._connection.fileno()

    def is_alive(self) -> bool:
        return not self._has_hung_up(0.0)

    def is_dying(self) -> bool:
        """Whether the process is dead within a moment."""
        return self._has_hung_up(_DYING_SECONDS)

    def _has_hung_up(self, seconds: float) -> bool:
        """Whether the process closes its side within this time, at the latest when it dies."""
        # Not by its pid: a process that was forked from its parent uses it, too.
        events = select.poll()
        events.register(self._connection, 0)
        return bool(events.poll(seconds * 1000))

    def hand_over(self, trial: int, *, network: bool) -> None:
        """Raises ConnectionError when the process is dead."""
        send_message(self._connection, WITH_NETWORK if network else WITHOUT_NETWORK, [trial])

    def failure(self) -> str:
        # The kernel reports once that the process did not read all, before what it said.
        for _ in range(2):
            with contextlib.suppress(OSError):
                message = self._connection.recv(_MESSAGE_BYTES, socket.MSG_DONTWAIT)
                if message.startswith(FAILED):
                    self._failure = message.removeprefix(FAILED).decode(errors="replace")
        return self._failure


def _order(call_filter: bytes | None) -> LauncherOrder:
    return LauncherOrder(
        owner=trial_owner(),
        uid=trial_view.UID,
        gid=trial_view.GID,
        host_name=trial_view.HOST_NAME,
        system=tuple((entry.path, entry.source, entry.is_link) for entry in trial_view.system_entries()),
        call_filter=call_filter,
    )


def _end(connection: socket.socket, process: subprocess.Popen[bytes], owner: int) -> None:
    # A forked child inherits this finalizer, and must not wait for its parent's process.
    connection.close()
    if os.getpid() == owner:
        process.wait()
