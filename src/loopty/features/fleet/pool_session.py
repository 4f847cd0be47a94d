"""The workers of one session: where they join, what they get of a run, and cohorts on new machines."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import WorkerOutage
from loopty.domain.task import Rig, Task
from loopty.domain.trial import Ending, Machine, Pool, Verdict
from loopty.engine.protocols import CommittedFiles, Trial
from loopty.engine.trial_runner import TrialRunner
from loopty.features.fleet.door import WorkerDoor
from loopty.features.fleet.host_workers import HostWorkers, StartTerms, joins_by_url, require_hosts
from loopty.features.fleet.messages import FileChange, PackedOrder, RigPackage, WorkerOrder
from loopty.features.fleet.paces import WorkerPaces
from loopty.features.fleet.pool import PoolTerms, WorkerPool
from loopty.git.bundles import write_bundle
from loopty.kit.records import Record, replace
from loopty.kit.temporary_folder import temporary_folder
from loopty.record.fold import Event, Recorded
from loopty.record.history import History
from loopty.record.trials import CohortOpened, Cohorts, RunRebaselined, note_machine
from loopty.record.verdicts import Incumbents, NodeJudged
from loopty.record.workers import ClusterNode, ClusterSeen, WorkerLeft, Workers
from loopty.session.again import best_contender, contenders_to_measure
from loopty.session.context import CampaignContext
from loopty.session.stoppable import watch_nothing
from loopty.workspaces.stages import results_folder


class TrialPacking(Record, dict=True):
    """Packs the trials of one run, and keeps what they leave."""

    context: CampaignContext
    run: int
    rig: Rig

    @functools.cached_property
    def _base(self) -> CommittedFiles:
        """Find the baseline without what no trial sees: a worker gets no hidden and no held-out file."""
        root = self.context.history[self.context.history.runs[self.run].root]
        files = self.context.repository.files(root.commit)
        hidden: dict[str, str | bytes | None] = {path: None for path in files if not self._is_shown(path)}
        if not hidden:
            return CommittedFiles(root.commit, root.tree)
        return self.context.repository.commit(root.commit, hidden, {}, "what workers see\n")

    def _is_shown(self, path: str) -> bool:
        root = self.context.history[self.context.history.runs[self.run].root]
        return self.rig.access.is_visible(path) or self.context.files.benchmark.includes_or_loads(
            path, root.commit
        )

    @property
    def package(self) -> RigPackage:
        return RigPackage(self.rig, self._base.tree, self.run)

    @functools.cached_property
    def _bundle(self) -> bytes:
        with temporary_folder("base") as folder:
            write_bundle(self.context.repository.git, self._base.tree, self._base.tree, Path(folder, "bundle"))
            return Path(folder, "bundle").read_bytes()

    def base(self) -> bytes:
        """Return the baseline's files as a bundle of git."""
        return self._bundle

    def pack(self, trial: Trial) -> PackedOrder:
        """Pack the trial as data: its parameters, and the files that differ from the baseline's."""
        changes, contents = [], []
        # The tree travels by content: the baseline went once, as a bundle named by its tree.
        for change in self.context.repository.changes(trial.root.commit, trial.node.commit):
            if self._is_shown(change.path):
                content = self.context.repository.blob(change.after.blob) if change.after else b""
                changes.append(FileChange(change.path, len(content), change.after.mode if change.after else ""))
                contents.append(content)
        order = WorkerOrder(
            node=str(trial.node.id),
            number=trial.number,
            pool=trial.pool,
            seed=trial.seed,
            token=trial.token,
            slice=trial.slice,
            gates=trial.gates,
            params=trial.node.params,
            changes=tuple(changes),
            name=trial.node.name,
        )
        return PackedOrder(order, b"".join(contents))

    def keep(self, trial: Trial, files: Mapping[str, bytes]) -> None:
        """Keep the files of a trial where one of this machine leaves them."""
        folder = results_folder(self.context.state, trial).make()
        for name, content in files.items():
            *above, last = name.split("/")
            folder.below(*above).make().file(last).write(content)


class CohortKeeper:
    """Measures what is needed to compare results of machines that join a session."""

    def __init__(self, context: CampaignContext, run: int, pool: WorkerPool, runner: TrialRunner) -> None:
        self._context = context
        self._run = run
        self._pool = pool
        self._runner = runner
        self._cancel = asyncio.Event()
        self._judged = asyncio.Event()
        """Set when the baseline has its verdict."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._paces = WorkerPaces(context.task.objective)

    def start(self) -> None:
        """Look at the workers that are there, and at all that join."""
        self._context.recorder.listeners.append(self._on_event)
        if self._root_verdict:
            self._judged.set()
        else:  # the baseline is measured on the first machine, and compared there
            self._pool.open_cohort(self._pool.machine.fingerprint)
        self._pool.on_cohort = self._add
        self._pool.offer_cohorts()

    async def close(self) -> None:
        """Stop what is being measured."""
        self._context.recorder.listeners.remove(self._on_event)
        self._pool.on_cohort = lambda _: None
        self._cancel.set()
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def _root_verdict(self) -> Verdict | None:
        history = self._context.history
        return history[history.runs[self._run].root].verdict

    def _on_event(self, recorded: Recorded) -> None:
        event = recorded.event
        if drift := self._paces.apply(event):
            asyncio.get_running_loop().call_soon(self._pool.note_drift, drift.worker, drift.reason)
        if isinstance(event, NodeJudged) and event.node == self._context.history.runs[self._run].root:
            self._judged.set()

    def _add(self, machine: Machine) -> None:
        task = asyncio.create_task(self._open(machine))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open(self, machine: Machine) -> None:
        waits = [asyncio.create_task(event.wait()) for event in (self._judged, self._cancel)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        fingerprint = machine.fingerprint
        if self._cancel.is_set() or self._root_verdict is not Verdict.KEPT:
            return
        try:
            reason = await self._measure(fingerprint)
        except WorkerOutage as outage:
            reason = str(outage)
        if reason:
            self._pool.give_up_cohort(fingerprint)
            self._context.say(f"the workers with fingerprint {fingerprint} get no trials: {reason}")
            return
        await self._context.recorder.wait_for_ledger()
        self._context.recorder.record(lambda history: self._decide(history, fingerprint))
        self._pool.open_cohort(fingerprint)

    async def _measure(self, fingerprint: str) -> str:
        """Measure the contenders until their noise is known there; returns why that is not possible."""
        runner, noise = self._runner, self._context.task.noise
        while wanted := contenders_to_measure(runner.history, self._run, fingerprint, noise):
            for node in wanted:
                if not self._pool.has_worker(fingerprint):
                    return "the last of them left"
                await self._context.recorder.wait_for_ledger()
                trial = replace(runner.start_observation(runner.history[node], Pool.REBASE), cohort=fingerprint)
                outcome = await runner.run_observation(trial, watch_nothing, self._cancel)
                if outcome.ending is Ending.CANCELLED:
                    return "the session ends"
                if not outcome.is_finished:
                    return (
                        f"{runner.history.name(node)} gives no result there ({outcome.ending}: {outcome.reason})"
                    )
        return ""

    def _decide(self, history: History, fingerprint: str) -> Iterator[Event]:
        """Compare under this fingerprint, too; alone, where no worker of the present one is left."""
        run = history.runs[self._run]
        present = Cohorts.of(run).fingerprint
        best: NodeId = best_contender(history, self._run, fingerprint)
        if present != fingerprint and not self._pool.has_worker(present):
            yield RunRebaselined(self._run, fingerprint, best)
        elif fingerprint not in Incumbents.of(run, Pool.ATTEMPT).by_fingerprint:
            yield CohortOpened(self._run, fingerprint, best)


def require_workers(task: Task) -> None:
    """Raise Misuse where the task cannot run on workers, or no worker could start or join."""
    spec = task.executor
    if task.roles.user.model:
        raise Misuse(
            "the benchmark calls the model of roles.user, which only trials on this machine can reach: "
            'set kind = "local" under [executor]'
        )
    if not (spec.hosts or spec.start or spec.listen):
        raise Misuse("a pool needs workers: set hosts or start under [executor], or add --listen ADDRESS:PORT")
    if (what := joins_by_url(spec)) and not spec.listen:
        raise Misuse(
            f"the workers of {what!r} join over the network: add --listen ADDRESS:PORT, where they can "
            "reach this machine"
        )
    require_hosts(spec.hosts)


class PoolSession:
    """An executor whose workers come and go. Open it, then build the loop, then let the keeper open cohorts."""

    def __init__(self, context: CampaignContext, run: int, unsafe: bool) -> None:
        require_workers(context.task)
        spec = context.task.executor
        packing = TrialPacking(context, run, context.rig(unsafe, run))
        self._context = context
        self._run = run
        self._door = WorkerDoor(
            context.state.home.below("workers"), lambda link, host: self.pool.admit(link, host)
        )
        self.pool = WorkerPool(
            PoolTerms(
                package=packing.package,
                base=packing.base,
                pack=packing.pack,
                keep=packing.keep,
                record=self._record,
                wait_for_ledger=context.recorder.wait_for_ledger,
                note_machine=self._note_machine,
                say=context.say,
                token=self._door.token(),
                lease_seconds=spec.lease_seconds,
                wait_seconds=spec.wait_seconds,
                most_trials=context.task.stated_width,
            )
        )
        self._url = ""
        admit = functools.partial(self.pool.admit, is_known=True)
        terms = StartTerms(lambda: self._url, self._note_nodes, lambda: self.pool.joined)
        self._hosts = HostWorkers(spec, admit, context.say, terms)
        self._keeper: CohortKeeper | None = None
        self._notes: set[asyncio.Task[None]] = set()
        """What is about to be recorded."""
        # Who listens because of these expects no other worker.
        if joins_by_url(spec) or (spec.hosts and not spec.listen):
            self.pool.exhaustion = self._hosts.exhaustion

    async def open(self) -> None:
        """Wait for the first worker. Raises Misuse when there is none."""
        spec, context = self._context.task.executor, self._context
        self._forget_workers()
        if spec.listen:
            self._url = str(await self._door.open(spec.listen))
            context.say(f"on each machine that should run trials: loopty system worker '{self._url}'")
        self._hosts.start()
        present = Cohorts.of(context.history.runs[self._run]).fingerprint
        first = await self.pool.wait_for_worker(lambda _: True)
        if first is None:
            await self.close()
            why = self.pool.exhaustion() or f"none has joined for {spec.wait_seconds:g} s"
            raise Misuse(f"the pool has no worker: {why}")
        found = [member for member in self.pool.members if member.machine.fingerprint == present]
        self.pool.choose_machine((found or [first])[0].machine)

    def start_keeper(self, runner: TrialRunner) -> None:
        """Open cohorts from now on; `runner` measures what that takes."""
        self._keeper = CohortKeeper(self._context, self._run, self.pool, runner)
        self._keeper.start()

    async def close(self) -> None:
        """Send all workers away; none of them, and none of their trials, is left."""
        if self._keeper:
            await self._keeper.close()
        await self.pool.close()
        await self._hosts.close()
        await self._door.close()
        await asyncio.gather(*self._notes)

    def _forget_workers(self) -> None:
        """Close the record of workers that a process left which died before its session began."""
        for name in Workers.of(self._context.history.runs[self._run]).members:
            self._record(WorkerLeft(self._run, name, "its driver died"))

    def _record(self, event: Event) -> None:
        self._context.recorder.record(lambda _: [event])

    def _note_nodes(self, cluster: str, nodes: Sequence[ClusterNode]) -> None:
        note = asyncio.create_task(self._record_later(ClusterSeen(self._run, cluster, tuple(nodes))))
        self._notes.add(note)
        note.add_done_callback(self._notes.discard)

    async def _record_later(self, event: Event) -> None:
        await self._context.recorder.wait_for_ledger()
        self._record(event)

    def _note_machine(self, machine: Machine) -> None:
        # Facts are only ever added: where they are known, nothing is to be written, and no lock is needed.
        if machine.fingerprint in Cohorts.of(self._context.history.runs[self._run]).machines:
            return
        self._context.recorder.record(
            lambda history: note_machine(history, self._run, machine.fingerprint, machine.facts)
        )
