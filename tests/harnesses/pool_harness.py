"""A pool with workers in this process: real frames over real sockets, and a function instead of a sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from loopty.domain.access import Access
from loopty.domain.benchmark import Benchmark, Limits
from loopty.domain.ids import NodeId
from loopty.domain.task import Audit, Rig, SandboxSpec
from loopty.domain.trial import Machine, Outcome
from loopty.engine.protocols import OnMetrics, Trial
from loopty.features.fleet.messages import Link, LinkLost, PackedOrder, RigPackage, TrialReport, WorkerOrder
from loopty.features.fleet.pool import PoolTerms, WorkerPool
from loopty.features.fleet.worker_client import WorkerClient
from loopty.kit.records import Record, replace
from loopty.record.fold import Event
from loopty.record.recorder import Recorder
from loopty.testing.executor_suite import Evaluate, trial_of

HERE = {"cpu": "fast"}
TOKEN = "the token of a test"


class FunctionBench(Record):
    """Runs trials by calling a function."""

    evaluate: Evaluate
    machine: Machine
    sandbox: str = "none"
    width: int = 1

    @property
    def executor(self) -> FunctionBench:
        return self

    async def execute(self, trial: Trial, on_metrics: OnMetrics, cancel: asyncio.Event) -> Outcome:
        return await self.evaluate(trial, on_metrics, cancel)

    def drift(self) -> str:
        return ""

    def trial(self, order: WorkerOrder, block: bytes) -> Trial:  # noqa: ARG002
        trial = trial_of(1, pool=order.pool)
        node = replace(trial.node, id=NodeId(order.node), params=order.params)
        return replace(
            trial, node=node, number=order.number, seed=order.seed, gates=order.gates, token=order.token
        )

    def report(self, trial: Trial, outcome: Outcome) -> TrialReport:
        return TrialReport(outcome, {"logs/stdout.log": f"ran {trial.node.id}\n".encode()})

    def has_base(self, package: RigPackage) -> bool:  # noqa: ARG002
        return True

    def add_base(self, package: RigPackage, block: bytes) -> None:  # noqa: ARG002
        raise AssertionError("the base is here")

    def bench(self, package: RigPackage) -> FunctionBench:  # noqa: ARG002
        return self


class FakeWorker(Struct):
    """A worker of the harness, with the ways in which it can be lost."""

    link: Link
    peer: Link
    """The driver's end."""
    task: asyncio.Task[None]

    async def kill(self) -> None:
        """End it as `kill -9` does: its connection breaks."""
        self.task.cancel()
        self.link.close()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


@dataclass
class PoolHarness:
    """A pool, what it recorded, and its workers."""

    lease_seconds: float = 30.0
    wait_seconds: float = 60.0
    most_trials: int | None = None
    recorder: Recorder | None = None
    """Records what the pool does in a ledger, too."""
    events: list[Event] = field(default_factory=list)
    files: dict[str, Mapping[str, bytes]] = field(default_factory=dict)
    """What each trial left, by node."""
    said: list[str] = field(default_factory=list)
    tasks: list[asyncio.Task[str]] = field(default_factory=list)
    workers: list[FakeWorker] = field(default_factory=list)

    def __post_init__(self) -> None:
        rig = Rig(Benchmark("true", 1.0), Limits(), Access(), Audit(), SandboxSpec())
        terms = PoolTerms(
            package=RigPackage(rig, "f0" * 20, 1),
            base=lambda: b"",
            pack=pack_without_files,
            keep=lambda trial, files: self.files.update({str(trial.node.id): files}),
            record=self._record,
            wait_for_ledger=self._wait_for_ledger,
            note_machine=lambda _: None,
            say=self.said.append,
            token=TOKEN,
            lease_seconds=self.lease_seconds,
            wait_seconds=self.wait_seconds,
            most_trials=self.most_trials,
        )
        self.is_ledger_there = asyncio.Event()
        """Clear it, and nothing can be recorded."""
        self.is_ledger_there.set()
        self.pool = WorkerPool(terms)
        self._links: list[Link] = []

    async def _wait_for_ledger(self) -> None:
        await self.is_ledger_there.wait()
        if self.recorder:
            await self.recorder.wait_for_ledger()

    def _record(self, event: Event) -> None:
        if self.recorder:
            self.recorder.record(lambda _: [event])
        self.events.append(event)

    async def connect(self) -> tuple[Link, Link]:
        """Return both ends of a connection of which the pool serves one: the worker's and the driver's."""
        ends = socket.socketpair()
        mine, theirs = [Link(*await asyncio.open_connection(sock=end)) for end in ends]
        self._links += [mine, theirs]
        self.tasks.append(asyncio.create_task(self.pool.admit(theirs, "here")))
        return mine, theirs

    async def add_worker(
        self, evaluate: Evaluate, facts: Mapping[str, str] | None = None, name: str = "worker"
    ) -> FakeWorker:
        """Add a worker that has joined. The first one's machine is the pool's."""
        machine = Machine(facts or HERE)
        client = WorkerClient(name, TOKEN, FunctionBench(evaluate, machine), lambda _: None)
        mine, theirs = await self.connect()
        known = set(self.pool.members)
        worker = FakeWorker(mine, theirs, asyncio.create_task(_work(client, mine)))
        self.workers.append(worker)
        await self.pool.wait_for_worker(lambda member: member not in known)
        if not self.pool.machine.facts:
            self.pool.choose_machine(machine)
            self.pool.open_cohort(machine.fingerprint)
        return worker

    async def close(self) -> None:
        await self.pool.close()
        for worker in self.workers:
            await worker.kill()
        for link in self._links:
            link.close()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def pack_without_files(trial: Trial) -> PackedOrder:
    """Pack an order of a trial whose node changes no file."""
    node = trial.node
    return PackedOrder(
        WorkerOrder(
            node=str(node.id),
            number=trial.number,
            pool=trial.pool,
            seed=trial.seed,
            token=trial.token,
            slice="",
            gates=trial.gates,
            params=node.params,
        )
    )


async def _work(client: WorkerClient, link: Link) -> None:
    with contextlib.suppress(LinkLost):
        await client.work(link)
