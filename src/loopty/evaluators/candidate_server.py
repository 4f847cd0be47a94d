"""Starts the candidate for an isolated benchmark, each time in a sandbox of its own, and answers its requests,
which are hostile data.

The benchmark connects to a socket that only its own sandbox shows, and sends one request per connection
(`candidate_requests.py`). With a start it passes a descriptor, which becomes the candidate's standard input and
output: loopty does not see what they exchange. Between calls the benchmark has the candidate frozen, by further
packets on the same connection. When the candidate is dead, the answer says how it ended; when the benchmark
disconnects, the candidate is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from loopty.domain.benchmark import Limits
from loopty.domain.launch import Exit, Launch, Mount, Sandbox, SandboxError, Stop
from loopty.engine.protocols import Stage
from loopty.evaluators import harvest
from loopty.evaluators.candidate_stillness import CandidateConduct, CandidateStillness
from loopty.kit import untrusted_files
from loopty.kit.records import Record, field, replace
from loopty.kit.safe_folder import SafeFile
from loopty.kit.sockets import listen
from loopty.kit.untrusted_files import Unreadable

LOG = "candidate-stderr.log"
_LARGEST_LOG = 1 << 20
_MAX_CANDIDATES = 8
_MAX_CONNECTIONS = 32
_PACKET_BYTES = 1 << 16


class CandidateLimits(Record):
    """The limits and the environment that all launches of a candidate share."""

    task_limits: Limits
    seconds: float
    tree: str
    server: str
    """The program that serves functions of the candidate: its path as the candidate sees it, not the benchmark."""
    env: Mapping[str, str]
    mounts: tuple[Mount, ...]
    network: bool
    links: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()


class CandidateServer:
    """Starts candidates and reads their files for one command of an isolated benchmark."""

    def __init__(self, sandbox: Sandbox, stage: Stage, limits: CandidateLimits) -> None:
        self._sandbox = sandbox
        self._stage = stage
        self._limits = limits
        self._connections: set[asyncio.Task[None]] = set()
        self._memory_by_launch: dict[int, int] = {}
        """Megabytes of each running launch."""
        self._launches = 0
        self.conduct = CandidateConduct()
        self._failure: SandboxError | None = None

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Path]:
        """Serve on a socket; afterwards no candidate is alive. Raises SandboxError when one could not be run."""
        folder = self._stage.outbox.beside("calls")
        with listen(folder, socket.SOCK_SEQPACKET, _MAX_CONNECTIONS) as listener:
            accepting = asyncio.create_task(self._accept_connections(listener.socket))
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

    async def _accept_connections(self, listener: socket.socket) -> None:
        while True:
            connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            if len(self._connections) >= _MAX_CONNECTIONS:
                connection.close()
                continue
            task = asyncio.create_task(self._serve(connection))
            self._connections.add(task)
            task.add_done_callback(self._forget_connection)

    def _forget_connection(self, task: asyncio.Task[None]) -> None:
        # A task that failed stays, so that its exception is raised in the end.
        if task.cancelled() or task.exception() is None:
            self._connections.discard(task)

    async def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(ConnectionError), contextlib.ExitStack() as resources:
            try:
                await self._answer(connection, resources)
            except Unreadable as error:
                await _send(connection, {"error": f"the request {error}"})
            except SandboxError as error:
                self._failure = self._failure or error
                await _send(connection, {"error": f"the sandbox failed: {error}"})

    async def _answer(self, connection: socket.socket, resources: contextlib.ExitStack) -> None:
        raw, channels = await _receive(connection, resources)
        match parse_request(raw, self._limits.seconds, self._limits.task_limits.memory_mb):
            case StartRequest() as start:
                if len(channels) != 1:
                    raise Unreadable("starts a candidate but passes no socket for it")
                await _send(connection, await self._run_candidate(start, channels[0], connection))
            case TimedRequest(inputs):
                self.conduct.timed_inputs = inputs
                await _send(connection, {"noted": 1})
            case ReadRequest(path, limit):
                held = await asyncio.to_thread(content, self._stage.candidate, self._limits.tree, path, limit)
                await _send(connection, {"size": len(held)})
                for first in range(0, len(held), _PACKET_BYTES):
                    packet = held[first : first + _PACKET_BYTES]
                    await asyncio.get_running_loop().sock_sendall(connection, packet)

    async def _run_candidate(
        self, start: StartRequest, channel: socket.socket, connection: socket.socket
    ) -> dict[str, object]:
        """Run a candidate until it ends or the benchmark disconnects."""
        self._refuse_too_many(start)
        self._launches += 1
        number = self._launches
        self._memory_by_launch[number] = start.memory_mb
        stderr = self._stage.folder.file(f"candidate-{number}.tmp")
        stillness = CandidateStillness(self.conduct)
        try:
            end = await self._launch(start, channel, stderr, connection, stillness)
            by_limit = end.stop not in (None, Stop.CANCELLED)
            return {
                "code": end.code,
                "seconds": round(end.seconds, 6),
                "cpu_seconds": stillness.cpu_seconds_at_end(),
                "stop": end.stop if by_limit else "",
                "stderr": harvest.error_line(stderr),
            }
        finally:
            del self._memory_by_launch[number]
            _append_to_log(stderr, self._stage.folder.file(LOG))

    async def _launch(
        self,
        start: StartRequest,
        channel: socket.socket,
        stderr: SafeFile,
        connection: socket.socket,
        stillness: CandidateStillness,
    ) -> Exit:
        limits = self._limits
        launch = Launch(
            argv=tuple(limits.server if word == SERVER else word for word in start.argv),
            cwd=limits.tree,
            bounds=replace(limits.task_limits.bounds(start.seconds), memory_mb=start.memory_mb),
            stdout=Path(os.devnull),
            stderr=stderr.path_for_programs(),
            env={**limits.env, **start.env},
            mounts=(*limits.mounts, *self._stage.candidate),
            links=limits.links,
            devices=limits.devices,
            network=limits.network,
            channel=channel.detach(),
            on_start=stillness.take_freezer,
        )
        disconnected, may_start = asyncio.Event(), asyncio.Event()
        if not start.held:
            may_start.set()
        following = asyncio.create_task(_follow(connection, stillness, may_start, disconnected))
        try:
            await may_start.wait()
            return await self._sandbox.run(launch, disconnected)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    def _refuse_too_many(self, start: StartRequest) -> None:
        if len(self._memory_by_launch) >= _MAX_CANDIDATES:
            raise Unreadable(f"came while {_MAX_CANDIDATES} candidates were running: close one first")
        used, total = sum(self._memory_by_launch.values()), self._limits.task_limits.memory_mb
        if used + start.memory_mb > total:
            raise Unreadable(
                f"asks for {start.memory_mb} MB while other candidates have {used} of the task's {total} MB: "
                "close them first, or give each less with memory_mb"
            )


async def _follow(
    connection: socket.socket, stillness: CandidateStillness, may_start: asyncio.Event, disconnected: asyncio.Event
) -> None:
    """Start, freeze and thaw the candidate as the benchmark asks, until that disconnects or asks for nonsense."""
    try:
        while raw := await asyncio.get_running_loop().sock_recv(connection, LARGEST_REQUEST):
            wanted = parse_freeze(raw)
            done = await stillness.set(wanted) if may_start.is_set() else True
            if not wanted:
                may_start.set()
            await _send(connection, {"frozen": done, "cpu_seconds": stillness.cpu_seconds()})
    except (Unreadable, ConnectionError):
        pass
    finally:
        with contextlib.suppress(OSError):
            stillness.charge()
        disconnected.set()
        may_start.set()


async def _receive(
    connection: socket.socket, resources: contextlib.ExitStack
) -> tuple[bytes, list[socket.socket]]:
    """Receive the one packet of a connection, and the sockets that came with it."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection)
    raw, descriptors, flags, _ = socket.recv_fds(connection, LARGEST_REQUEST, 1, socket.MSG_CMSG_CLOEXEC)
    sockets = []
    for descriptor in descriptors:
        try:
            sockets.append(resources.enter_context(socket.socket(fileno=descriptor)))
        except OSError:
            os.close(descriptor)
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        raise Unreadable(f"has more than {LARGEST_REQUEST} bytes or more than one descriptor")
    return raw, sockets


async def _send(connection: socket.socket, reply: Mapping[str, object]) -> None:
    """Send a reply: one line for each field, which the SDK reads without a parser."""
    lines = (f"{name}={' '.join(str(value).splitlines())}" for name, value in reply.items() if value is not None)
    await asyncio.get_running_loop().sock_sendall(connection, "\n".join(lines).encode(errors="replace"))


def _append_to_log(stderr: SafeFile, log: SafeFile) -> None:
    """Move a candidate's output to the log of all candidates, up to the size limit of the log."""
    with contextlib.suppress(FileNotFoundError):
        if printed := stderr.read(max(0, _LARGEST_LOG - log.size)):
            log.append(printed)
        stderr.remove()


# {"start": {"argv": [...], "env": {...}, "seconds": 5.0, "memory_mb": 512, "held": true}}    only argv is required
# {"read": {"path": "kernel.c", "limit": 65536}}
# {"timed": "0123…"}    candidates were timed, and this is the digest of what they were asked
#
# Once a candidate is started, the same connection carries {"freeze": true} and {"freeze": false}: stop all its
# processes, and let them go on. One that is held starts when it is first to go on.
#
# In argv, `loopty:serve` is replaced by the path at which the candidate sees the SDK's server of functions.


LARGEST_REQUEST = 1 << 16
SERVER = "loopty:serve"
_LARGEST_FILE = 64 << 20
_LONGEST_DIGEST = 128


class StartRequest(Record):
    """Start the candidate."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    seconds: float
    memory_mb: int
    held: bool
    """Whether it starts only when the benchmark first lets it go on."""


class ReadRequest(Record):
    """Return the bytes of one of the candidate's files."""

    path: str
    limit: int


class TimedRequest(Record):
    """Note that candidates were timed."""

    inputs: str
    """A digest of what they were asked."""


def parse_request(raw: bytes, seconds: float, memory_mb: int) -> StartRequest | ReadRequest | TimedRequest:
    """Parse the request. A start gets at most this time and memory, and that by default. Raises Unreadable."""
    match untrusted_files.json_object(raw):
        case {"start": dict(fields), **rest} if not rest:
            defaults = {"env": {}, "seconds": seconds, "memory_mb": memory_mb, "held": False}
            return _parse_start({**defaults, **fields}, seconds, memory_mb)
        case {"read": {"path": str(path), "limit": int(limit), **more}, **rest} if not rest and not more:
            if not 0 <= limit <= _LARGEST_FILE:
                raise Unreadable(f"has a limit that is not between 0 and {_LARGEST_FILE}")
            return ReadRequest(path, limit)
        case {"timed": str(inputs), **rest} if not rest and inputs.isalnum() and len(inputs) <= _LONGEST_DIGEST:
            return TimedRequest(inputs)
        case _:
            raise Unreadable("is neither a start nor a read, nor a digest of inputs")


def parse_freeze(raw: bytes) -> bool:
    """Say whether to stop the processes of a started candidate, or to let them go on. Raises Unreadable."""
    match untrusted_files.json_object(raw):
        case {"freeze": bool(wanted), **rest} if not rest:
            return wanted
        case _:
            raise Unreadable("is not a freeze, and the candidate is started already")


def _parse_start(fields: Mapping[str, Any], seconds: float, memory_mb: int) -> StartRequest:
    match fields:
        case {
            "argv": [_, *_] as argv,
            "env": dict(env),
            "seconds": requested,
            "memory_mb": memory,
            "held": bool(held),
            **rest,
        } if not rest:
            pass
        case _:
            raise Unreadable("is not a valid start: it takes argv and optionally env, seconds, memory_mb and held")
    # A NUL would end the word, and the rest would be read as an option of the sandbox.
    if not all(isinstance(word, str) and "\0" not in word for word in (*argv, *env, *env.values())):
        raise Unreadable("has an argument or a variable that is not text")
    if not all(name and "=" not in name for name in env):
        raise Unreadable("has a variable with an invalid name")
    if type(requested) not in (int, float) or requested <= 0:
        raise Unreadable("has seconds that are not a positive number")
    if type(memory) is not int or not 0 < memory <= memory_mb:
        raise Unreadable(f"asks for {memory!r:.20} MB, but the task allows {memory_mb}")
    return StartRequest(tuple(argv), env, min(float(requested), seconds), memory, held)


def content(mounts: Sequence[Mount], tree: str, path: str, limit: int) -> bytes:
    """Read the bytes at `path` below `tree`, as these mounts show it. Raises Unreadable."""
    relative = PurePosixPath(path)
    if relative.is_absolute() or not relative.parts or ".." in relative.parts or "\0" in path:
        raise Unreadable(f"reads {path!r:.100}, which is not the path of a file of the candidate")
    target = PurePosixPath(tree) / relative
    # Mounts are in order: each covers the earlier ones.
    covering = [mount for mount in mounts if PurePosixPath(mount.target) in (target, *target.parents)]
    if not covering:
        raise Unreadable(f"reads {path!r:.100}, which the candidate cannot see")
    try:
        raw = _read_below(covering[-1].source, target.relative_to(covering[-1].target).parts, limit)
    except Unreadable as error:
        raise Unreadable(f"reads {path!r:.100}, which {error}") from None
    except OSError:
        raw = None
    if raw is None:
        raise Unreadable(f"reads {path!r:.100}, which does not exist")
    return raw


def _read_below(source: Path, steps: Sequence[str], limit: int) -> bytes | None:
    if not steps:
        return untrusted_files.content(source, limit)
    folder = os.open(source, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for step in steps[:-1]:
            parent = folder
            folder = os.open(step, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            os.close(parent)
        return untrusted_files.content(Path(steps[-1]), limit, folder)
    finally:
        os.close(folder)
