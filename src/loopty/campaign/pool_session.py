"""The workers of one session: where they join, who starts them, and which machines they bring."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence

from loopty.campaign.cohort_keeper import CohortKeeper
from loopty.campaign.context import CampaignContext
from loopty.campaign.trial_packing import TrialPacking
from loopty.domain.errors import Misuse
from loopty.domain.machine import Machine
from loopty.domain.task import Task
from loopty.engine.trial_runner import TrialRunner
from loopty.executors.cluster_workers import ClusterTerms
from loopty.executors.host_workers import HostWorkers, is_cluster, require_hosts
from loopty.executors.worker_door import WorkerDoor
from loopty.executors.worker_pool import PoolTerms, WorkerPool
from loopty.record.cohorts import Cohorts, note_machine
from loopty.record.event import Event
from loopty.record.workers import ClusterNode, ClusterSeen, WorkerLeft, Workers


def require_workers(task: Task) -> None:
    """Raise Misuse where the task cannot run on workers, or no worker could start or join."""
    spec = task.executor
    if task.roles.user.model:
        raise Misuse(
            "the benchmark calls the model of roles.user, which only trials on this machine can reach: "
            'set kind = "local" under [executor]'
        )
    if not (spec.hosts or spec.listen):
        raise Misuse("a pool needs workers: name hosts under [executor], or add --listen ADDRESS:PORT")
    require_hosts(spec.hosts)
    clusters = list(filter(is_cluster, spec.hosts))
    if clusters and not spec.listen:
        raise Misuse(
            f"the workers of {clusters[0]!r} join over the network: add --listen ADDRESS:PORT, where they can "
            "reach this machine"
        )


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
                packing.package,
                packing.base,
                packing.pack,
                packing.keep,
                self._record,
                context.recorder.wait_for_ledger,
                self._note_machine,
                context.say,
                self._door.token(),
                spec.lease_seconds,
                spec.wait_seconds,
                context.task.stated_width,
            )
        )
        self._url = ""
        admit = functools.partial(self.pool.admit, is_known=True)
        terms = ClusterTerms(lambda: self._url, self._note_nodes)
        self._hosts = HostWorkers(spec.hosts, admit, context.say, terms)
        self._keeper: CohortKeeper | None = None
        self._notes: set[asyncio.Task[None]] = set()
        """What is about to be recorded."""
        if spec.hosts and (not spec.listen or all(map(is_cluster, spec.hosts))):
            self.pool.exhaustion = self._hosts.exhaustion

    async def open(self) -> None:
        """Wait for the first worker. Raises Misuse when there is none."""
        spec, context = self._context.task.executor, self._context
        self._forget_workers()
        if spec.listen:
            self._url = str(await self._door.open(spec.listen))
            context.say(f"on each machine that should run trials: loopty worker '{self._url}'")
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
