"""The worker's end of a connection: joins, runs one trial at a time, and ends it when the driver is gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from loopty.domain.declared_types import misfit
from loopty.domain.errors import LooptyError, Misuse
from loopty.domain.objective import Directions
from loopty.domain.trial import Machine, Outcome, Row
from loopty.engine.protocols import Executor, Trial
from loopty.features.fleet.messages import (
    LONGEST_BLOCK,
    LONGEST_HEAD,
    Frame,
    Link,
    LinkLost,
    RigPackage,
    TrialReport,
    WorkerOrder,
    message,
    pack_report,
    send_beats,
    wait_for_silence,
)
from loopty.kit import codec
from loopty.version import __version__


class WorkerBench(Protocol):
    """What runs the trials of a rig on the worker's machine."""

    @property
    def executor(self) -> Executor: ...

    @property
    def sandbox(self) -> str:
        """Name the sandbox, with what it does not enforce here."""
        ...

    @property
    def machine(self) -> Machine: ...

    def drift(self) -> str:
        """Say how this machine differs now from the one that joined; empty if it does not."""
        ...

    def trial(self, order: WorkerOrder, block: bytes) -> Trial:
        """Make the trial of an order."""
        ...

    def report(self, trial: Trial, outcome: Outcome) -> TrialReport:
        """Return what goes back: the outcome and the files that the trial left, which are gone here afterwards."""
        ...


class BenchMaker(Protocol):
    """Sets up what runs trials."""

    def has_base(self, package: RigPackage) -> bool:
        """Say whether the baseline's files are here already."""
        ...

    def add_base(self, package: RigPackage, block: bytes) -> None: ...

    def bench(self, package: RigPackage) -> WorkerBench:
        """Set up what runs trials. Raises LooptyError when this machine cannot run such trials."""
        ...


class WorkerClient:
    """One worker over one connection after the other."""

    def __init__(self, name: str, token: str, maker: BenchMaker, say: Callable[[str], None]) -> None:
        self._name = name
        self._token = token
        self._maker = maker
        self._say = say
        self._cancel = asyncio.Event()
        self._lease = ""
        self._stop_reason = ""
        self._work: asyncio.Task[None] | None = None

    async def work(self, link: Link) -> None:
        """Run trials until the driver says that there are no more. Raises LinkLost, and Misuse when refused."""
        await link.send("hello", name=self._name, token=self._token, version=__version__)
        welcome = await link.receive(0, LONGEST_HEAD)
        if welcome.kind == "refused":
            raise Misuse(welcome.text("reason"))
        package, lease_seconds = _read_welcome(welcome)
        bench = await self._set_up(link, package)
        machine = bench.machine
        await link.send("ready", facts=dict(machine.facts), sandbox=bench.sandbox)
        self._say(f"joined as {welcome.text('name')}, fingerprint {machine.fingerprint}, sandbox {bench.sandbox}")
        watches = [asyncio.create_task(watch(link, lease_seconds)) for watch in (send_beats, _watch_driver)]
        try:
            while (frame := await link.receive(LONGEST_BLOCK, LONGEST_HEAD)).kind != "bye":
                self._take(frame, bench, link)
        finally:
            for watch in watches:
                watch.cancel()
            await self._end_trial()

    async def _set_up(self, link: Link, package: RigPackage) -> WorkerBench:
        try:
            if not self._maker.has_base(package):
                await link.send("need")
                base = await link.receive(LONGEST_BLOCK)
                self._maker.add_base(package, base.block)
            return self._maker.bench(package)
        except LinkLost:
            raise
        except LooptyError as error:
            await link.send("unfit", reason=str(error))
            raise Misuse(str(error)) from None

    def _take(self, frame: Frame, bench: WorkerBench, link: Link) -> None:
        if frame.kind == "trial" and (self._work is None or self._work.done()):
            self._lease, self._stop_reason, self._cancel = frame.text("lease"), "", asyncio.Event()
            self._work = asyncio.create_task(self._run(frame, bench, link))
        elif frame.fields.get("lease") != self._lease:
            return
        elif frame.kind == "cancel":
            self._cancel.set()
        elif frame.kind == "stop":
            self._stop_reason = frame.text("reason")

    async def _run(self, frame: Frame, bench: WorkerBench, link: Link) -> None:
        """Run one trial and report it; a connection that breaks meanwhile is the reader's to notice."""
        lease, sent, rows_sent = self._lease, set[asyncio.Task[None]](), 0

        def on_metrics(rows: Sequence[Row], directions: Directions) -> str | None:
            nonlocal rows_sent
            if new := rows[rows_sent:]:
                rows_sent = len(rows)
                fields = {"rows": message(list(new)), "directions": message(dict(directions))}
                task = asyncio.create_task(_send_quietly(link, lease, fields))
                sent.add(task)
                task.add_done_callback(sent.discard)
            return self._stop_reason or None

        with contextlib.suppress(LinkLost):
            try:
                order = codec.build(WorkerOrder, frame.fields["order"])
                # In a thread: on a slow disk the worker must still show that it lives.
                trial = await asyncio.to_thread(bench.trial, order, frame.block)
                if await self._leaves_for_drift(bench, link):
                    return
                self._say(f"runs {order.name or order.node}, trial {order.number}")
                outcome = await bench.executor.execute(trial, on_metrics, self._cancel)
                if await self._leaves_for_drift(bench, link):
                    return
                fields, block = pack_report(await asyncio.to_thread(bench.report, trial, outcome))
            except (LooptyError, OSError, KeyError, TypeError, ValueError) as error:
                await link.send("fault", lease=lease, reason=str(error) or type(error).__name__)
                return
            await asyncio.gather(*sent)
            await link.send("end", block, lease=lease, **fields)

    async def _leaves_for_drift(self, bench: WorkerBench, link: Link) -> bool:
        """Say whether the machine is no longer the one that joined: then it joins again, as what it is now.

        Its trial goes to another worker, because a result of two kinds of machines can be compared with nothing.
        """
        drift = await asyncio.to_thread(bench.drift)
        if drift:
            self._say(f"this machine has changed ({drift}): joining again as what it is now")
            link.close()
        return bool(drift)

    async def _end_trial(self) -> None:
        """Kill the trial that is running: nobody waits for its result any more."""
        self._cancel.set()
        if self._work is not None:
            await asyncio.wait({self._work})


def _read_welcome(frame: Frame) -> tuple[RigPackage, float]:
    try:
        package = codec.build(RigPackage, frame.fields["package"])
        if fault := misfit(package):
            raise ValueError(fault)
        return package, float(frame.fields["lease_seconds"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LinkLost(f"the driver sent a rig that cannot be read ({error})") from None


async def _watch_driver(link: Link, lease_seconds: float) -> None:
    """Close the connection when the driver is silent for too long."""
    await wait_for_silence(link, lease_seconds)
    link.close()


async def _send_quietly(link: Link, lease: str, fields: dict[str, Any]) -> None:
    with contextlib.suppress(LinkLost):
        await link.send("rows", lease=lease, **fields)
