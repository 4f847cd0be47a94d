"""Workers that the pool starts itself: on this machine, on hosts over ssh, by Ray, and by a command."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.util
import re
import shlex
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from loopty.domain.errors import Misuse
from loopty.domain.task_tables import ExecutorSpec
from loopty.features.fleet.cluster_spec import ClusterSpec, last_line
from loopty.features.fleet.messages import Link
from loopty.features.fleet.ray_workers import NoteNodes, RayPlacer
from loopty.features.fleet.start_command import RECIPES, run_start_command
from loopty.kit.installation import extra_command
from loopty.kit.records import Record

Run = Callable[[], Awaitable[str]]
"""Runs one worker to its end; returns why it ended."""


def _note_nothing(_cluster: str, _nodes: object) -> None:
    return None


class StartTerms(Record):
    """What starting workers needs from the session around them."""

    url: Callable[[], str] = str
    """What they join by."""
    note_nodes: NoteNodes = _note_nothing
    """Records which nodes a cluster has."""
    joined: Callable[[], int] = int
    """Counts the workers that have joined so far."""


def _ray_runs(host: str, terms: StartTerms, say: Callable[[str], None]) -> list[Run]:
    """Make what runs each worker of an entry that names a cluster. Refuses a fault or a missing package."""
    spec = ClusterSpec.parse(host)
    placer = RayPlacer(spec, terms.url, say, functools.partial(terms.note_nodes, host))
    if importlib.util.find_spec("ray") is None:
        raise Misuse(f"`ray:` under [executor] hosts needs ray: run {extra_command('ray')}")
    return [placer.run] * spec.workers


_TRIES = 3
"""A host whose worker fails this often in a row, without joining, gets no further one."""
_LONG_SECONDS = 60.0
_PAUSE_SECONDS = 1.0
_END_SECONDS = 15.0
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=15", "-T")

AdmitKnown = Callable[[Link, str], Awaitable[str]]


def joins_by_url(spec: ExecutorSpec) -> str:
    """Return what starts workers that join over the network; empty if nothing does."""
    return spec.start or next(filter(_is_cluster, spec.hosts), "")


def _is_cluster(host: str) -> bool:
    return host.startswith("ray:")


def worker_command(host: str) -> list[str]:
    """Make the command that starts a worker at a host, connected by its standard input and output.

    Raises Misuse for what is neither an absolute directory nor an ssh URL.
    """
    if (scheme := host.partition(":")[0]) in RECIPES:
        raise Misuse(
            f"[executor] hosts names {host!r}: such workers are started by a command, `start`; "
            f"`loopty system worker --recipe {scheme}` prints one with its lines of loopty.toml"
        )
    if not host.startswith("ssh:"):
        folder = Path(host).expanduser()
        if not folder.is_absolute():
            raise Misuse(
                f"[executor] hosts names {host!r}: give an absolute directory, or ssh://USER@HOST/DIRECTORY"
            )
        return [sys.executable, "-m", "loopty", *_arguments(str(folder))]
    try:
        parts = urlsplit(host)
        names, port = [name for name in (parts.username, parts.hostname) if name is not None], parts.port
    except ValueError:
        names, port, parts = [], None, urlsplit("")
    # A name that begins with a dash would be an option of ssh.
    is_plain = parts.hostname and all(_NAME.fullmatch(name) for name in names)
    if not is_plain or parts.password or len(parts.path) < 2:
        raise Misuse(f"[executor] hosts names {host!r}: give ssh://USER@HOST/DIRECTORY, with no password in it")
    program = parse_qs(parts.query).get("loopty", ["loopty"])[0]
    remote = " ".join(map(shlex.quote, (program, *_arguments(unquote(parts.path)))))
    return [*_SSH, *(("-p", str(port)) if port else ()), "@".join(names), f"exec {remote}"]


def require_hosts(hosts: Sequence[str]) -> None:
    """Raise Misuse for an entry that names no place for a worker, or a cluster whose package is not installed."""
    for host in hosts:
        if _is_cluster(host):
            _ray_runs(host, StartTerms(), lambda _: None)
        else:
            worker_command(host)


def _arguments(folder: str) -> tuple[str, ...]:
    return ("worker", "--stdio", "--trust", "--dir", folder)


class HostWorkers:
    """Keeps one worker running at each host, and as many as asked for by the command."""

    def __init__(
        self,
        spec: ExecutorSpec,
        admit: AdmitKnown,
        say: Callable[[str], None],
        terms: StartTerms = StartTerms(),  # noqa: B008 - frozen
    ) -> None:
        self._admit = admit
        self._say = say
        self._terms = terms
        self._runs = list(self._all_runs(spec))
        self._tasks: list[asyncio.Task[None]] = []
        self._given_up: dict[int, str] = {}
        self._is_closing = False

    def start(self) -> None:
        """Start all workers."""
        self._tasks = [asyncio.create_task(self._keep(*item)) for item in enumerate(self._runs)]

    def exhaustion(self) -> str:
        """Say why there will never be a worker; empty as long as one may."""
        if len(self._given_up) < len(self._runs):
            return ""
        return "; ".join(dict.fromkeys(self._given_up.values()))

    async def close(self) -> None:
        """Wait for the workers, which were sent away, and kill those that stay."""
        self._is_closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _all_runs(self, spec: ExecutorSpec) -> Iterator[tuple[str, Run]]:
        """Yield what runs each worker, after the words that name it."""
        for host in spec.hosts:
            if _is_cluster(host):
                yield from ((host, run) for run in _ray_runs(host, self._terms, self._say))
            else:
                yield host, functools.partial(self._run, host, worker_command(host))
        for number in range(1, spec.workers + 1) if spec.start else ():
            yield "executor.start", functools.partial(self._run_command, spec.start, number)

    async def _run_command(self, command: str, number: int) -> str:
        return await run_start_command(command, self._terms.url(), number)

    async def _keep(self, number: int, entry: tuple[str, Run]) -> None:
        name, run = entry
        failures = 0
        while failures < _TRIES and not self._is_closing:
            began, joined = asyncio.get_running_loop().time(), self._terms.joined()
            try:
                reason = await run()
            except Misuse as error:
                reason, failures = str(error), _TRIES
            # A machine whose set-up fails is rented for minutes each time: time alone is no success.
            lived = asyncio.get_running_loop().time() - began
            has_worked = lived > _LONG_SECONDS and self._terms.joined() > joined
            failures = 1 if has_worked else failures + 1
            if failures < _TRIES:
                await asyncio.sleep(_PAUSE_SECONDS * failures)
        said = f"{name}: {reason}"
        if said not in self._given_up.values():
            self._say(f"no worker from {said}")
        self._given_up[number] = said

    async def _run(self, host: str, command: Sequence[str]) -> str:
        """Run one worker to its end; returns why it ended."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
            )
        except OSError as error:
            return f"{command[0]} cannot be started ({error.strerror})"
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        messages = asyncio.create_task(last_line(process.stderr))
        try:
            reason = await self._admit(Link(process.stdout, process.stdin), host)
        finally:
            await _end(process)
        return await messages or reason


async def _end(process: Process) -> None:
    """Let the worker end its trial, then itself; kill it where it does not."""
    if process.stdin:
        process.stdin.close()
    try:
        await asyncio.wait_for(asyncio.shield(process.wait()), _END_SECONDS)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()
