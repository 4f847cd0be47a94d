"""A process of the candidate, in a sandbox or not, and how it ended."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from socket import socket


class ProcessEnd:
    """How a candidate's process ended.

    `stop` names the limit that ended it, or is empty; `stderr` is the last line of its standard error;
    `cpu_seconds` is None where nothing measured the CPU time.
    """

    def __init__(self, code: int, seconds: float, cpu_seconds: float | None, stop: str, stderr: str) -> None:
        self.code = code
        self.seconds = seconds
        self.cpu_seconds = cpu_seconds
        self.stop = stop
        self.stderr = stderr


class Process:
    """A started candidate; `channel` is connected to its standard input and output."""

    channel: socket

    def freeze(self) -> None:
        """Stop all processes of the candidate until `thaw`, where loopty runs it."""

    def thaw(self) -> None:
        """Let them go on."""

    def cpu_seconds(self) -> float | None:
        """The CPU time that it has used until the last freeze or thaw; None where nothing measures it."""
        raise NotImplementedError

    def wait_or_kill(self, grace: float) -> ProcessEnd:
        """Wait up to `grace` seconds for the process to end, then kill it. Returns how it ended."""
        raise NotImplementedError
