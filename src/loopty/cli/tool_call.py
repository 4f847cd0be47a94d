"""A call of a tool, answered by a process that outlives this one: what was handed over goes on after the reply."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from loopty.kit.detached import run_detached

_CHUNK = 1 << 16
_KILLED = b'{"error": "the process that ran this was killed; what was recorded is safe: call again"}'


class ToolCall:
    """A call that is being answered. It can be waited for by its descriptor."""

    def __init__(self, reading: int) -> None:
        self._reading = reading
        self._parts: list[bytes] = []

    def fileno(self) -> int:
        return self._reading

    def read(self) -> bytes | None:
        """Read what has come: the reply when it is complete, else None."""
        if part := os.read(self._reading, _CHUNK):
            self._parts.append(part)
            return None
        os.close(self._reading)
        return b"".join(self._parts) or _KILLED


def start_call(folder: Path, call: bytes) -> ToolCall:
    """Let a process of its own answer a call in the repository around a folder."""
    from loopty.campaign.agent_tools import answer_call  # before the fork: the next call need not import it

    reading, writing = os.pipe()

    def send(reply: bytes) -> None:
        with contextlib.suppress(BrokenPipeError), os.fdopen(writing, "wb") as pipe:
            pipe.write(reply)

    def answer() -> None:
        try:
            answer_call(folder, call, send)
        except Exception as error:  # its traceback goes nowhere, because a detached process has no terminal
            with contextlib.suppress(OSError):  # it may have been answered before
                send(json.dumps({"error": f"loopty failed ({type(error).__name__}: {error})"}).encode())
            raise

    run_detached(answer, kept=(writing,))
    os.close(writing)
    return ToolCall(reading)


def reply_to(folder: Path, call: bytes) -> bytes:
    """Answer a call, and wait for its reply."""
    started = start_call(folder, call)
    while (reply := started.read()) is None:
        pass
    return reply
