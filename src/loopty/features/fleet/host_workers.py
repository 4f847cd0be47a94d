"""Workers that the pool starts itself: on this machine, on hosts over ssh, and on clusters."""

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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from loopty.domain.errors import Misuse
from loopty.features.fleet.cluster_spec import ClusterSpec, last_line, run_worker
from loopty.features.fleet.messages import Link
from loopty.features.fleet.ray_workers import NoteNodes, RayPlacer
from loopty.features.fleet.rented_workers import requirement, run_modal_container, run_sky_worker, sky_python
from loopty.kit.installation import extra_command
from loopty.kit.records import Record

_POLL_SECONDS = 0.5


async def run_slurm_worker(spec: ClusterSpec, url: str) -> str:
    """Have Slurm run one worker as a job, and wait for its end; cancelling this ends it."""
    import submitit

    folder = Path(spec.options.get("folder", "~/.local/state/loopty/slurm")).expanduser()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # the jobs in it hold the URL
    executor = submitit.AutoExecutor(folder=folder, cluster=spec.options.get("cluster"))
    executor.update_parameters(
        timeout_min=int(spec.number("minutes", 24 * 60)),
        cpus_per_task=int(spec.number("cpus", 1)),
        gpus_per_node=int(spec.number("gpus", 0)),
        **({"slurm_partition": spec.place} if spec.place else {}),
    )
    job = await asyncio.to_thread(executor.submit, run_worker, url)
    try:
        while not await asyncio.to_thread(job.done):  # noqa: ASYNC110 - a job knows no event
            await asyncio.sleep(_POLL_SECONDS)
        found = await asyncio.to_thread(job.exception)
        return str(found or (await asyncio.to_thread(job.result)).text)
    except asyncio.CancelledError:
        await asyncio.to_thread(job.cancel)
        raise


# The scheduler runs no trial and retries nothing: leases, cancels and retries are the pool's.


_RUNNERS: Mapping[str, Callable[[ClusterSpec, str], Awaitable[str]]] = {
    "slurm": run_slurm_worker,
    "sky": run_sky_worker,
    "modal": run_modal_container,
}
KINDS = (*_RUNNERS, "ray")
_MODULES = {"slurm": "submitit", "modal": "modal", "ray": "ray"}
Run = Callable[[], Awaitable[str]]
"""Runs one worker to its end; returns why it ended."""


def _note_nothing(_cluster: str, _nodes: object) -> None:
    return None


class ClusterTerms(Record):
    """What workers of a cluster need from the session around them."""

    url: Callable[[], str] = str
    """What they join by."""
    note_nodes: NoteNodes = _note_nothing
    """Records which nodes a cluster has."""


def cluster_runs(host: str, terms: ClusterTerms, say: Callable[[str], None]) -> list[Run]:
    """Make what runs each worker of an entry that names a cluster. Refuses a fault or a missing package."""
    spec = ClusterSpec.parse(host)
    if spec.kind == "ray":
        placer = RayPlacer(spec, terms.url, say, functools.partial(terms.note_nodes, host))
        _require_package(spec.kind)
        return [placer.run] * spec.workers
    _require_package(spec.kind)
    if spec.kind in ("sky", "modal"):
        requirement(spec)  # before anything is rented

    async def run() -> str:
        return await _RUNNERS[spec.kind](spec, terms.url())

    return [run] * spec.workers


def _require_package(kind: str) -> None:
    if kind == "sky":
        sky_python()
    elif importlib.util.find_spec(_MODULES[kind]) is None:
        raise Misuse(f"`{kind}:` under [executor] hosts needs {_MODULES[kind]}: run {extra_command(kind)}")


_TRIES = 3
"""A host whose worker fails this often in a row, without joining, gets no further one."""
_PAUSE_SECONDS = 1.0
_END_SECONDS = 15.0
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=15", "-T")

AdmitKnown = Callable[[Link, str], Awaitable[str]]


def is_cluster(host: str) -> bool:
    """Say whether an entry names a cluster, whose scheduler places workers."""
    return host.partition(":")[0] in KINDS


def worker_command(host: str) -> list[str]:
    """Make the command that starts a worker at a host, connected by its standard input and output.

    Raises Misuse for what is neither an absolute directory nor an ssh URL.
    """
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
        if is_cluster(host):
            cluster_runs(host, ClusterTerms(), lambda _: None)
        else:
            worker_command(host)


def _arguments(folder: str) -> tuple[str, ...]:
    return ("worker", "--stdio", "--trust", "--dir", folder)


class HostWorkers:
    """Keeps one worker running at each host."""

    def __init__(
        self,
        hosts: Sequence[str],
        admit: AdmitKnown,
        say: Callable[[str], None],
        terms: ClusterTerms = ClusterTerms(),  # noqa: B008 - frozen
    ) -> None:
        """`terms` are for the workers that a cluster places."""
        self._admit = admit
        self._say = say
        self._runs = [(host, run) for host in hosts for run in self._runs_at(host, terms)]
        self._tasks: list[asyncio.Task[None]] = []
        self._given_up: dict[int, str] = {}
        self._is_closing = False

    def start(self) -> None:
        """Start a worker at each host."""
        self._tasks = [asyncio.create_task(self._keep(*item)) for item in enumerate(self._runs)]

    def exhaustion(self) -> str:
        """Say why no host will ever have a worker; empty as long as one may."""
        if len(self._given_up) < len(self._runs):
            return ""
        return "; ".join(f"{self._runs[number][0]}: {reason}" for number, reason in self._given_up.items())

    async def close(self) -> None:
        """Wait for the workers, which were sent away, and kill those that stay."""
        self._is_closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _runs_at(self, host: str, terms: ClusterTerms) -> list[Run]:
        if is_cluster(host):
            return cluster_runs(host, terms, self._say)
        return [functools.partial(self._run, host, worker_command(host))]

    async def _keep(self, number: int, entry: tuple[str, Run]) -> None:
        host, run = entry
        failures = 0
        while failures < _TRIES and not self._is_closing:
            joined_before = asyncio.get_running_loop().time()
            try:
                reason = await run()
            except Misuse as error:
                reason, failures = str(error), _TRIES
            lived = asyncio.get_running_loop().time() - joined_before
            failures = 1 if lived > 60 else failures + 1
            if failures < _TRIES:
                await asyncio.sleep(_PAUSE_SECONDS * failures)
        self._given_up[number] = reason
        self._say(f"no worker at {host}: {reason}")

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
