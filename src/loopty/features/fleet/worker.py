"""`loopty system worker`: join a driver, keep its baselines by content, run its trials here, and join again."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from loopty.domain.access import is_clean_path
from loopty.domain.benchmark import Gate
from loopty.domain.declared_types import misfit
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.space import Space
from loopty.domain.task import Noise, PluginChoice, Pools, Rig, Task
from loopty.domain.trial import Machine, Outcome
from loopty.engine.protocols import CommittedFiles, Executor, Trial
from loopty.executors.this_machine import machine_drift
from loopty.features.fleet.door import WorkerUrl, connect
from loopty.features.fleet.messages import LONGEST_FILES, Link, LinkLost, RigPackage, TrialReport, WorkerOrder
from loopty.features.fleet.worker_client import WorkerClient
from loopty.git.bundles import unpack_bundle
from loopty.git.folders import GitFolders
from loopty.git.objects import REGULAR_FILES, TreeEntry
from loopty.git.repository import Repository
from loopty.git.working_tree import committed_files
from loopty.kit.records import Record, replace
from loopty.kit.safe_folder import SafeFolder
from loopty.ledgers.open_ledger import open_ledger
from loopty.record.node_record import Node
from loopty.record.recorder import Recorder
from loopty.session.trial_setup import TrialSetup
from loopty.session.trust import user_state_folder
from loopty.taskfile.task_requests import task_requests
from loopty.workspaces import seals
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.stages import results_folder
from loopty.workspaces.state_folder import StateFolder

_NONE = PluginChoice("none")
_MOST_BASES = 8
"""Baselines that a worker keeps, so that a run that goes on finds its own."""
_FIRST_FILES = ("result.json", "metrics.csv", "artifacts", "traces")
"""What is sent before logs, where not everything can be."""


class Bench(Record):
    """Runs trials of one rig on this machine."""

    executor: Executor
    sandbox: str
    machine: Machine
    repository: Repository
    state: StateFolder
    base: CommittedFiles

    def drift(self) -> str:
        return machine_drift(self.machine.facts)

    def trial(self, order: WorkerOrder, block: bytes) -> Trial:
        """Make the trial of an order, whose node is a commit on the baseline here. Raises Misuse."""
        if fault := misfit(order):
            raise Misuse(f"the driver sent an order that cannot be read ({fault})")
        node = NodeId.from_record(order.node)
        files = self._commit(order, block)
        pool, params = order.pool, order.params
        root = Node(
            id=NodeId(str(node.run)),
            pool=pool,
            operator="",
            summary="",
            commit=self.base.commit,
            tree=self.base.tree,
            added_at=0.0,
            order=1,
            position=0,
        )
        found = Node(
            id=node,
            pool=pool,
            operator="",
            summary="",
            commit=files.commit,
            tree=files.tree,
            added_at=0.0,
            order=1,
            position=0,
            params=params,
        )
        return Trial(
            node=found,
            root=root,
            number=order.number,
            pool=pool,
            seed=order.seed,
            gates=order.gates,
            token=order.token,
            slice=order.slice,
        )

    def _commit(self, order: WorkerOrder, block: bytes) -> CommittedFiles:
        edits: dict[str, str | bytes | None] = {}
        modes: dict[str, TreeEntry] = {}
        start = 0
        for change in order.changes:
            if not is_clean_path(change.path) or change.size < 0 or change.mode not in ("", *REGULAR_FILES):
                raise Misuse(f"the driver sent {change.path!r}, which is not a plain file inside the tree")
            edits[change.path] = block[start : start + change.size] if change.mode else None
            if change.mode:
                modes[change.path] = TreeEntry(change.mode, "")
            start += change.size
        return self.repository.commit(self.base.commit, edits, modes, "a trial\n") if edits else self.base

    def report(self, trial: Trial, outcome: Outcome) -> TrialReport:
        """Report the outcome with the files that the trial left; remove them and the trial's commit here."""
        folder, files, left = results_folder(self.state, trial), {}, LONGEST_FILES
        for name in sorted(_file_names(folder), key=lambda name: name.split("/")[0] not in _FIRST_FILES):
            content = folder.file_at(name).read(left + 1)
            if len(content) <= left:
                files[name] = content
                left -= len(content)
        folder.remove_all()
        self.repository.packs.forget_unpacked()
        return TrialReport(outcome, files)


class WorkerFolder(Record):
    """The files of one worker. With `trust`, trials get what they ask for beyond a sandbox with their files."""

    folder: Path
    trust: bool
    say: Callable[[str], None]

    def has_base(self, package: RigPackage) -> bool:
        return (self._top(package) / ".git").is_dir()

    def _top(self, package: RigPackage) -> Path:
        if not package.tree.isalnum():
            raise Misuse("the driver names no tree: update loopty there")
        return self.folder / "bases" / package.tree

    def add_base(self, package: RigPackage, block: bytes) -> None:
        """Unpack a baseline; it gets its name when it is whole, and if its content is what the name says."""
        top = self._top(package)
        unfinished = top.with_name(f"{top.name}.{os.getpid()}")
        shutil.rmtree(unfinished, ignore_errors=True)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        SafeFolder(self.folder, ("bases",)).make_private()
        unfinished.mkdir()
        bundle = unfinished.with_suffix(".bundle")
        try:
            bundle.write_bytes(block)
            _, baseline, _ = unpack_bundle(bundle, unfinished)
            if baseline.tree != package.tree:
                raise Misuse(
                    f"the driver sent the files of tree {baseline.tree} as {package.tree}: start it again"
                )
            unfinished.rename(top)
            self._remove_old_bases()
        finally:
            bundle.unlink(missing_ok=True)
            shutil.rmtree(unfinished, ignore_errors=True)

    def _remove_old_bases(self) -> None:
        """Keep the baselines that were used last."""
        bases = sorted(self.folder.glob("bases/*/"), key=lambda base: base.stat().st_mtime, reverse=True)
        for old in bases[_MOST_BASES:]:
            shutil.rmtree(old, ignore_errors=True)

    def bench(self, package: RigPackage) -> Bench:
        """Make what runs trials of this rig here. Raises LooptyError when this machine cannot."""
        top, rig = self._top(package), package.rig
        os.utime(top)
        self._require_trust(rig, top)
        folders = GitFolders(top, top / ".git", top / ".git")
        repository, state = Repository(folders, is_own=False), StateFolder.of(folders)
        repository.packs.forget_unpacked()  # what a worker that was killed has left
        state.prepare()
        if rig.benchmark.data:
            rig = replace(rig, data_digest=seals.data_digest(top, rig.benchmark.data))
        refresh = Recorder(open_ledger("memory:"), time.time).refresh
        setup = TrialSetup(rig, repository, state, NodeFiles(repository, state, _task(rig)), refresh, folds=False)
        # The executor of this machine, with the same sandbox and seals: there is no second way to run a trial.
        executor = setup.executor(1, None, self.say)
        facts, sandbox = dict(executor.machine.facts), executor.machine.facts.get("sandbox", "")
        if gaps := ", ".join(setup.sandbox_gaps()):
            # Part of the fingerprint: a weaker machine forms a cohort of its own.
            facts["unenforced"], sandbox = gaps, f"{sandbox} without {gaps}"
        base = committed_files(repository.git, "refs/heads/baseline")
        return Bench(executor, sandbox, Machine(facts), repository, state, base)

    def _require_trust(self, rig: Rig, top: Path) -> None:
        """Refuse trials that ask for more than a sandbox with their files, unless the worker's user allows it."""
        requests = [str(request) for request in task_requests(_task(rig), top, {})]
        requests += ["your full permissions, without a sandbox"] if rig.unsafe else []
        if requests and not self.trust:
            raise Misuse(
                f"its trials ask this machine for {', '.join(requests)}: add --trust if they may have that"
            )
        paths = (*rig.benchmark.mounts, *rig.benchmark.data)
        if absent := [path for path in paths if not (top / Path(path).expanduser()).exists()]:
            raise Misuse(
                f"its trials need {', '.join(map(repr, absent))}, which this machine does not have: copy it here; "
                f"a relative path lies below {top}"
            )


def _task(rig: Rig) -> Task:
    """Make the part of the task that says which files are the benchmark's; nothing is proposed here."""
    gates = tuple(Gate(f"gate {number}", command) for number, command in enumerate(rig.gate_commands))
    return Task(
        statement="",
        benchmark=rig.benchmark,
        objective=Objective(),
        access=rig.access,
        space=Space(),
        limits=rig.limits,
        pools=Pools(),
        noise=Noise(),
        audit=rig.audit,
        sandbox=rig.sandbox,
        gates=gates,
        proposer=PluginChoice("random"),
        control=PluginChoice("random"),
        pruner=_NONE,
        width=1,
        seed=0,
    )


def _file_names(folder: SafeFolder, above: str = "") -> Iterator[str]:
    for name in folder.names():
        inner = folder.below(name)
        if (place := inner.shown_path).is_dir() and not place.is_symlink():
            yield from _file_names(inner, f"{above}{name}/")
        elif place.is_file() and not place.is_symlink():
            yield f"{above}{name}"


_LONGEST_PAUSE = 10.0
_MOST_FOLDERS = 1000


class WorkerRun(Record):
    """One worker process."""

    folder: Path | None
    """Where it keeps its files; None for one of its own in the user's state."""
    name: str
    trust: bool
    say: Callable[[str], None]

    def join(self, url: WorkerUrl, patience_seconds: float | None = None) -> None:
        """Work for the driver with this URL until it has no more work. Raises Misuse when it refuses.

        Without a driver for `patience_seconds`, it ends.
        """

        async def work(client: WorkerClient) -> None:
            pause, since = 0.5, time.monotonic()
            while True:
                try:
                    link = await connect(url)
                    pause = 0.5
                    await client.work(link)
                    return
                except LinkLost as lost:
                    since = since if pause > 0.5 else time.monotonic()
                    if patience_seconds is not None and time.monotonic() - since > patience_seconds:
                        raise Misuse(f"{lost}; no driver came back for {patience_seconds:g} s") from None
                    self.say(f"{lost}; joining again")
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # not all at once
                pause = min(_LONGEST_PAUSE, pause * 2)

        self._run(url.token, work)

    def serve_stdio(self) -> None:
        """Work for the driver at the other end of standard input and output."""

        async def work(client: WorkerClient) -> None:
            try:
                await client.work(await _stdio_link())
            except LinkLost as lost:
                self.say(f"the driver is gone: {lost}")

        self._run("", work)

    def _run(self, token: str, work: Callable[[WorkerClient], Awaitable[None]]) -> None:
        with _hold_folder(self.folder) as folder:
            client = WorkerClient(self.name, token, WorkerFolder(folder, self.trust, self.say), self.say)
            with contextlib.suppress(asyncio.CancelledError):
                asyncio.run(_run_until_signal(work(client)))


async def _run_until_signal(work: Awaitable[None]) -> None:
    """Work until it is done, or until SIGINT or SIGTERM: then its trial is killed first."""
    task = asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await task


async def _stdio_link() -> Link:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    # Copies, so that nothing else in this process can write between two frames.
    source, target = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    await loop.connect_read_pipe(lambda: protocol, source)
    transport, writer_protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, target)
    return Link(reader, asyncio.StreamWriter(transport, writer_protocol, reader, loop))


@contextlib.contextmanager
def _hold_folder(chosen: Path | None) -> Iterator[Path]:
    """Hold a folder that no other worker uses, until this one ends, however it ends. Raises Misuse."""
    above = user_state_folder(os.environ) / "workers"
    for folder in [chosen] if chosen else (above / str(number) for number in range(1, _MOST_FOLDERS)):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(
                folder / "worker.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
        except OSError as error:
            raise Misuse(f"cannot write to {folder} ({error.strerror}): name another place with --dir") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            os.close(descriptor)
            if chosen:
                raise Misuse(f"{folder} is in use by another worker (process {holder}): name another") from None
            continue
        try:
            os.pwrite(descriptor, f"{os.getpid():<20}".encode(), 0)
            yield folder
        finally:
            os.close(descriptor)
        return
    raise Misuse(f"{_MOST_FOLDERS} workers run here already: stop some of them")
