"""Starts the candidate for an isolated benchmark, each time in a sandbox of its own.

The benchmark connects to a socket that only its own sandbox shows, and asks once per connection (`asked.py`). With
a start it passes a descriptor, which becomes the candidate's standard input and output: loopty takes no part in
what they say to each other. When the candidate is dead, the answer tells how it ended; when the benchmark leaves,
the candidate is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from loopty.domain.launch import Exit, Launch, Mount, Sandbox, SandboxError, Stop
from loopty.domain.task import Limits
from loopty.engine.protocols import Stage
from loopty.evaluators import candidate_files, candidate_requests, harvest
from loopty.kit.unix_socket import listen
from loopty.kit.untrusted_files import Unreadable

LOG = "candidate-stderr.log"
_LARGEST_LOG = 1 << 20
_MAX_CANDIDATES = 8
_MAX_CONNECTIONS = 32
_PACKET_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class CandidateLimits:
    """What every launch of a candidate has in common."""

    task_limits: Limits
    seconds: float
    tree: str
    server: str
    """What serves a function of the candidate, as the candidate sees it: the benchmark's view is another."""
    env: Mapping[str, str]
    mounts: tuple[Mount, ...]
    network: bool


class CandidateServer:
    """Serves one command of an isolated benchmark."""

    def __init__(self, sandbox: Sandbox, stage: Stage, offer: CandidateLimits) -> None:
        self._sandbox = sandbox
        self._stage = stage
        self._limits = offer
        self._connections: set[asyncio.Task[None]] = set()
        self._memory_by_launch: dict[int, int] = {}
        """Megabytes by launch, of those that run."""
        self._launches = 0
        self._failure: SandboxError | None = None

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Path]:
        """Serve at a socket; afterwards no candidate is alive. Raises SandboxError when one could not be run."""
        folder = self._stage.outbox.with_name("calls")
        with listen(folder, socket.SOCK_SEQPACKET, _MAX_CONNECTIONS) as listener:
            accepting = asyncio.create_task(self._accept(listener.socket))
            try:
                yield listener.path
            finally:
                tasks = [accepting, *self._connections]
                for task in tasks:
                    task.cancel()
                ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in (*ends, self._failure):
            if isinstance(end, Exception):
                raise end

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            if len(self._connections) >= _MAX_CONNECTIONS:
                connection.close()
                continue
            task = asyncio.create_task(self._serve(connection))
            self._connections.add(task)
            task.add_done_callback(self._forget_connection)

    def _forget_connection(self, task: asyncio.Task[None]) -> None:
        # One that failed stays, for its fault to be raised in the end.
        if task.cancelled() or task.exception() is None:
            self._connections.discard(task)

    async def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(ConnectionError), contextlib.ExitStack() as passed:
            try:
                await self._answer(connection, passed)
            except Unreadable as error:
                await _send(connection, {"error": f"the request {error}"})
            except SandboxError as error:
                self._failure = self._failure or error
                await _send(connection, {"error": f"the sandbox failed: {error}"})

    async def _answer(self, connection: socket.socket, passed: contextlib.ExitStack) -> None:
        raw, channels = await _receive(connection, passed)
        match candidate_requests.parse_request(raw, self._limits.seconds, self._limits.task_limits.memory_mb):
            case candidate_requests.StartRequest() as start:
                if len(channels) != 1:
                    raise Unreadable("starts a candidate and brings no socket for it")
                await _send(connection, await self._run_candidate(start, channels[0], connection))
            case candidate_requests.ReadRequest(path, limit):
                content = await asyncio.to_thread(
                    candidate_files.content, self._stage.candidate, self._limits.tree, path, limit
                )
                await _send(connection, {"size": len(content)})
                for first in range(0, len(content), _PACKET_BYTES):
                    packet = content[first : first + _PACKET_BYTES]
                    await asyncio.get_running_loop().sock_sendall(connection, packet)

    async def _run_candidate(
        self, start: candidate_requests.StartRequest, channel: socket.socket, connection: socket.socket
    ) -> dict[str, object]:
        """Run a candidate to its end, or to the benchmark's."""
        self._refuse_too_many(start)
        self._launches += 1
        number = self._launches
        self._memory_by_launch[number] = start.memory_mb
        stderr = self._stage.folder / f"candidate-{number}.tmp"
        try:
            ended = await self._launch(start, channel, stderr, connection)
            by_bound = ended.stop not in (None, Stop.CANCELLED)
            return {
                "code": ended.code,
                "seconds": round(ended.seconds, 6),
                "stop": ended.stop if by_bound else "",
                "stderr": harvest.last_line(stderr),
            }
        finally:
            del self._memory_by_launch[number]
            _append_to_log(stderr, self._stage.folder / LOG)

    async def _launch(
        self,
        start: candidate_requests.StartRequest,
        channel: socket.socket,
        stderr: Path,
        connection: socket.socket,
    ) -> Exit:
        offer = self._limits
        launch = Launch(
            argv=tuple(offer.server if word == candidate_requests.SERVER else word for word in start.argv),
            cwd=offer.tree,
            bounds=replace(offer.task_limits.bounds(start.seconds), memory_mb=start.memory_mb),
            stdout=Path(os.devnull),
            stderr=stderr,
            env={**offer.env, **start.env},
            mounts=(*offer.mounts, *self._stage.candidate),
            network=offer.network,
            channel=channel.detach(),
        )
        left = asyncio.Event()
        # Nothing more is asked on this connection, so whatever comes is the benchmark's leaving.
        loop = asyncio.get_running_loop()
        loop.add_reader(connection, left.set)
        try:
            return await self._sandbox.run(launch, left)
        finally:
            loop.remove_reader(connection)

    def _refuse_too_many(self, start: candidate_requests.StartRequest) -> None:
        if len(self._memory_by_launch) >= _MAX_CANDIDATES:
            raise Unreadable(f"comes while {_MAX_CANDIDATES} candidates run: close one first")
        taken, whole = sum(self._memory_by_launch.values()), self._limits.task_limits.memory_mb
        if taken + start.memory_mb > whole:
            raise Unreadable(
                f"is for {start.memory_mb} MB while other candidates have {taken} of the task's {whole}: "
                "close them first, or give each less with memory_mb"
            )


async def _receive(connection: socket.socket, passed: contextlib.ExitStack) -> tuple[bytes, list[socket.socket]]:
    """The one packet of a connection, and the sockets that came with it."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection)
    raw, descriptors, flags, _ = socket.recv_fds(
        connection, candidate_requests.LARGEST_REQUEST, 1, socket.MSG_CMSG_CLOEXEC
    )
    sockets = []
    for descriptor in descriptors:
        try:
            sockets.append(passed.enter_context(socket.socket(fileno=descriptor)))
        except OSError:
            os.close(descriptor)
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        raise Unreadable(f"has more than {candidate_requests.LARGEST_REQUEST} bytes or one descriptor")
    return raw, sockets


async def _send(connection: socket.socket, reply: Mapping[str, object]) -> None:
    await asyncio.get_running_loop().sock_sendall(connection, json.dumps(reply).encode())


def _append_to_log(stderr: Path, log: Path) -> None:
    """Add what a candidate printed to the log of all, as far as that is not full."""
    with contextlib.suppress(FileNotFoundError):
        with stderr.open("rb") as said, log.open("ab") as kept:
            kept.write(said.read(max(0, _LARGEST_LOG - kept.tell())))
        stderr.unlink()
