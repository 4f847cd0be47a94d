"""Start the candidate: in a sandbox of its own when loopty runs the benchmark, else as a plain child process."""

from __future__ import annotations

import json
import os
import select
import sys
from socket import AF_UNIX, SCM_RIGHTS, SHUT_WR, SOCK_SEQPACKET, SOL_SOCKET, socket, socketpair

from . import asked
from .errors import CandidateError
from .process import Process, ProcessEnd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_PACKET = 1 << 16
_DESCRIPTOR_BYTES = 4
_NEVER_RAN = {"code": "1", "seconds": "0", "stop": "", "stderr": ""}


def start_process(
    argv: Sequence[str],
    seconds: float | None,
    memory_mb: int | None,
    env: Mapping[str, str] | None,
    held: bool = False,
) -> Process:
    """Start a command of the candidate in the top directory of its files.

    One that is `held` starts when it is first thawed; only loopty can hold it.
    """
    if path := os.environ.get("LOOPTY_CANDIDATE"):
        asked.begin(tell_timed)
        asked.note_inputs(
            word.encode(errors="surrogateescape") for word in (*argv, *(env or {}), *(env or {}).values())
        )
        request = {"argv": list(argv), "seconds": seconds, "memory_mb": memory_mb, "env": env}
        request["held"] = held or None
        return _SandboxedProcess(path, {name: value for name, value in request.items() if value is not None})
    from .child_process import ChildProcess

    return ChildProcess(argv, env or {})


def read_file(path: str, limit: int) -> bytes:
    """Read one of the candidate's files. Raises CandidateError when it is unreadable or larger than `limit`."""
    if socket_path := os.environ.get("LOOPTY_CANDIDATE"):
        loopty = _connect(socket_path)
        try:
            loopty.send(_encode_request({"read": {"path": path, "limit": limit}}))
            size = int(_receive_reply(loopty)["size"])
            return b"".join(loopty.recv(_PACKET) for _ in range(0, size, _PACKET))
        finally:
            loopty.close()
    from .child_process import read_file

    return read_file(path, limit)


def tell_timed(inputs: str) -> None:
    """Tell loopty that candidates were timed, and the digest of what they were asked."""
    loopty = _connect(os.environ["LOOPTY_CANDIDATE"])
    try:
        loopty.send(_encode_request({"timed": inputs}))
        _receive_reply(loopty)  # after the benchmark's end loopty listens no more
    finally:
        loopty.close()


class _SandboxedProcess(Process):
    """A candidate that loopty runs in a sandbox; loopty kills it when the connection closes, for any reason."""

    def __init__(self, path: str, request: Mapping[str, Any]) -> None:
        self._loopty = _connect(path)
        self.channel, candidate_end = socketpair()
        try:
            descriptor = candidate_end.fileno().to_bytes(_DESCRIPTOR_BYTES, sys.byteorder)
            self._loopty.sendmsg([_encode_request({"start": request})], [(SOL_SOCKET, SCM_RIGHTS, descriptor)])
        finally:
            candidate_end.close()

        self._cpu_seconds: float | None = None
        self._end: dict[str, str] | None = None
        """How the process ended, where that came instead of another answer."""

    def freeze(self) -> None:
        self._set_frozen(True)

    def thaw(self) -> None:
        self._set_frozen(False)

    def _set_frozen(self, frozen: bool) -> None:
        """Return when loopty has done it, so that nothing of the candidate runs beside what is measured next."""
        if self._end is not None:
            return
        try:  # noqa: SIM105 - contextlib is slow to import
            self._loopty.send(_encode_request({"freeze": frozen}))
        except OSError:
            pass  # it has ended, and the reply says how
        try:
            reply = _receive_reply(self._loopty)
        except CandidateError:
            self._end = _NEVER_RAN
            raise
        self._cpu_seconds = _cpu_seconds(reply)
        if "frozen" not in reply:
            self._end = reply

    def cpu_seconds(self) -> float | None:
        return self._cpu_seconds

    def wait_or_kill(self, grace: float) -> ProcessEnd:
        try:
            if self._end is None:
                if not select.select([self._loopty], [], [], grace)[0]:
                    self._loopty.shutdown(SHUT_WR)
                self._end = _receive_reply(self._loopty)
        finally:
            self._loopty.close()
        end = self._end
        return ProcessEnd(
            int(end["code"]), float(end["seconds"]), _cpu_seconds(end), end.get("stop", ""), end.get("stderr", "")
        )


def _connect(path: str) -> socket:
    loopty = socket(AF_UNIX, SOCK_SEQPACKET)
    loopty.connect(path)
    return loopty


def _encode_request(request: Mapping[str, Any]) -> bytes:
    return json.dumps(request).encode()


def _cpu_seconds(reply: Mapping[str, str]) -> float | None:
    return float(reply["cpu_seconds"]) if "cpu_seconds" in reply else None


def _receive_reply(loopty: socket) -> dict[str, str]:
    """loopty's reply: one line of text for each field."""
    try:
        raw = loopty.recv(_PACKET)
    except ConnectionResetError:
        raw = loopty.recv(_PACKET)  # loopty left a request unread because the candidate ended; its reply comes now
    lines = (raw or b"error=loopty closed the connection").decode(errors="replace").split("\n")
    reply = {name: value for name, _, value in (line.partition("=") for line in lines)}
    if "error" in reply:
        raise CandidateError("refused", reply["error"])
    return reply
