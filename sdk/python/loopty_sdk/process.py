"""A process of the candidate, however it was started, and how it ended."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket


class ProcessEnd:
    """How a candidate's process ended: `stop` says which bound ended it, if one did; `stderr` is its last line."""

    def __init__(self, code: int, seconds: float, stop: str, stderr: str) -> None:
        self.code = code
        self.seconds = seconds
        self.stop = stop
        self.stderr = stderr


class Process:
    """A started candidate; `channel` is connected to its standard input and output."""

    channel: socket.socket

    def wait_or_kill(self, grace: float) -> ProcessEnd:
        """Kill it unless it ends by itself within so many seconds; how it ended."""
        raise NotImplementedError
