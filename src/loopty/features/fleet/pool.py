"""Runs trials on workers: each goes to one of them by a lease, and to another when that one is lost."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import itertools
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from loopty.domain.declared_types import cut_words, misfit
from loopty.domain.errors import LooptyError
from loopty.domain.model import TrialLosesWorkers, WorkerOutage
from loopty.domain.objective import Direction
from loopty.domain.task_tables import MOST_WORKERS
from loopty.domain.trial import Ending, Machine, Outcome, Row
from loopty.engine.protocols import OnMetrics, Trial
from loopty.features.fleet.messages import (
    LONGEST_FILES,
    LONGEST_HEAD,
    SHORT,
    Frame,
    Link,
    LinkLost,
    PackedOrder,
    RigPackage,
    TrialReport,
    message,
    send_beats,
    unpack_report,
    wait_for_silence,
)
from loopty.kit import codec
from loopty.kit.records import Record, field, replace
from loopty.record.fold import Event
from loopty.record.workers import LeaseLost, TrialLeased, WorkerDrifted, WorkerJoined, WorkerLeft
from loopty.version import __version__

CANCEL_SECONDS = 20.0
"""How long a worker may take to stop a trial."""
MOST_ROWS = 1_000_000
"""Rows of metrics that one trial may send."""


class TrialFault(LooptyError):  # noqa: N818 - named after what happened
    """The worker could not run the trial: its machine failed, not the candidate."""


class _Lease(Struct):
    """The trial that a member holds now."""

    name: str
    on_metrics: OnMetrics
    report: asyncio.Future[TrialReport]
    rows: list[Row] = field(default_factory=list)


class PoolWorker:
    """One worker of the pool, from its greeting to its end."""

    def __init__(self, name: str, host: str, machine: Machine, sandbox: str, link: Link) -> None:
        self.name = name
        self.host = host
        self.machine = machine
        self.fingerprint = machine.fingerprint  # computed once: the pool asks all workers for it, all the time
        self.sandbox = sandbox
        self.is_busy = False
        self.refused_results = 0
        """Results that came with a lease that no longer counts."""
        self._link = link
        self._lease: _Lease | None = None
        self._lost_reason = ""
        self._lost = asyncio.Event()

    def change_machine(self, machine: Machine) -> None:
        """Let its results count as those of this machine from now on."""
        self.machine, self.fingerprint = machine, machine.fingerprint

    @property
    def lost_reason(self) -> str:
        """Say why the worker is gone; empty while it is there."""
        return self._lost_reason

    def lose(self, reason: str) -> None:
        """Take the worker for gone: whatever it still sends counts for nothing."""
        if not self._lost.is_set():
            self._lost_reason = reason
            self._lost.set()
            self._link.close()

    async def serve(self, lease_seconds: float) -> None:
        """Take what the worker sends until it is gone."""
        watches = [
            asyncio.create_task(watch)
            for watch in (self._watch(lease_seconds), send_beats(self._link, lease_seconds))
        ]
        try:
            while not self._lost.is_set():
                await self._take(await self._link.receive(LONGEST_FILES, LONGEST_HEAD))
        except LinkLost as lost:
            self.lose(str(lost))
        finally:
            for watch in watches:
                watch.cancel()
            self.lose("its connection ended")

    async def _watch(self, lease_seconds: float) -> None:
        """Lose a worker that is silent for too long."""
        await wait_for_silence(self._link, lease_seconds)
        self.lose(f"the worker was silent for {lease_seconds:g} s")

    async def _take(self, frame: Frame) -> None:
        lease = self._lease
        # A result counts only with the present lease, so that a trial can be given out again at any time.
        if lease is None or frame.fields.get("lease") != lease.name or lease.report.done():
            self.refused_results += frame.kind == "end"
            return
        if frame.kind == "rows":
            await self._take_rows(lease, frame.fields)
        elif frame.kind == "end":
            lease.report.set_result(unpack_report(frame.fields, frame.block))
        elif frame.kind == "fault":
            lease.report.set_exception(TrialFault(cut_words(frame.text("reason"))))

    async def _take_rows(self, lease: _Lease, fields: Any) -> None:
        try:
            lease.rows += [_sound_row(codec.build(Row, row)) for row in fields["rows"]]
            directions = {str(name): Direction(value) for name, value in fields["directions"].items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise LinkLost("the worker sent metrics that cannot be read") from None
        if len(lease.rows) > MOST_ROWS:
            raise LinkLost(f"the worker sent more than {MOST_ROWS:,} rows of metrics")
        if reason := lease.on_metrics(lease.rows, directions):
            await self._link.send("stop", lease=lease.name, reason=reason)

    async def run(
        self, packed: PackedOrder, lease: str, on_metrics: OnMetrics, cancel: asyncio.Event
    ) -> TrialReport | None:
        """Run a trial and return its report; None when it was cancelled, whatever the worker says then.

        Raises LinkLost when the worker is gone, TrialFault when it could not run the trial.
        """
        report: asyncio.Future[TrialReport] = asyncio.get_running_loop().create_future()
        self._lease = _Lease(lease, on_metrics, report)
        waits: list[asyncio.Future[Any]] = [asyncio.create_task(event.wait()) for event in (self._lost, cancel)]
        try:
            await self._link.send("trial", packed.block, lease=lease, order=message(packed.order))
            await asyncio.wait({report, *waits}, return_when=asyncio.FIRST_COMPLETED)
            if cancel.is_set():
                await self._stop(lease, report, waits[0])
                return None
            if not report.done():
                raise LinkLost(self._lost_reason)
            return report.result()
        finally:
            self._lease = None
            for wait in waits:
                wait.cancel()
            if report.done() and not report.cancelled():
                report.exception()  # it was looked at, or it no longer counts

    async def _stop(self, lease: str, report: asyncio.Future[TrialReport], lost: asyncio.Future[Any]) -> None:
        """Make the worker end its trial; one that does not say so in time is taken for gone."""
        with contextlib.suppress(LinkLost):
            await self._link.send("cancel", lease=lease)
        await asyncio.wait({report, lost}, timeout=CANCEL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not report.done():
            self.lose("the worker did not stop its trial in time")

    async def dismiss(self) -> None:
        """Tell the worker that there is no more work."""
        with contextlib.suppress(LinkLost, TimeoutError):
            await asyncio.wait_for(self._link.send("bye"), 5)


def _sound_row(row: Row) -> Row:
    """Return the row, if its values are numbers. Raises ValueError."""
    if fault := misfit(row):
        raise ValueError(fault)
    return row


_GREETING_SECONDS = 20.0
_SET_UP_SECONDS = 900.0
_MOST_LOSSES = 3
"""A trial that loses this many workers in a row waits for another session."""
PACE = "changes of pace"
"""The fact about a machine that the driver adds: how often what it measures has changed."""


class PoolTerms(Record):
    """What the pool needs from the campaign around it."""

    package: RigPackage
    base: Callable[[], bytes]
    """The files of the baseline, for a worker that does not have them yet."""
    pack: Callable[[Trial], PackedOrder]
    keep: Callable[[Trial, Mapping[str, bytes]], None]
    """Keeps the files that a trial left."""
    record: Callable[[Event], None]
    wait_for_ledger: Callable[[], Awaitable[None]]
    """Waits while nothing can be recorded, and lets everything else go on."""
    note_machine: Callable[[Machine], None]
    """Records the facts behind a fingerprint."""
    say: Callable[[str], None]
    token: str
    lease_seconds: float
    wait_seconds: float
    most_trials: int | None = None
    """The most trials at once that the user asked for; None: as many as there are workers."""


class WorkerPool:
    """The executor of a session whose trials run elsewhere."""

    def __init__(self, terms: PoolTerms) -> None:
        self._terms = terms
        self._members: dict[str, PoolWorker] = {}
        self._counts: Counter[str] = Counter()
        """The members by fingerprint: the loop asks for the width several times a trial."""
        self._machine: Machine | None = None
        self._open: set[str] = set()
        self._pending: set[str] = set()
        """Fingerprints under which the incumbent is being measured, so that results can be compared."""
        self._numbers = itertools.count(1)
        self.joined = 0
        """The workers that have joined so far."""
        self._changed = asyncio.Event()
        self.on_cohort: Callable[[Machine], None] = lambda _: None
        """Called when a worker joins whose machine no result can be compared on yet."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when a worker has joined, left or become ready for the search."""
        self.exhaustion: Callable[[], str] = lambda: ""
        """Why no further worker can come; empty as long as one may."""

    @property
    def width(self) -> int:
        """Return as many trials as the search has workers, or as the user said; one waits without a worker."""
        workers = sum(self._counts[fingerprint] for fingerprint in self._open)
        return max(1, min(workers, self._terms.most_trials or workers))

    @property
    def machine(self) -> Machine:
        """Return the machine whose results the session compares first."""
        return self._machine or Machine({})

    @property
    def members(self) -> tuple[PoolWorker, ...]:
        return tuple(self._members.values())

    def choose_machine(self, machine: Machine) -> None:
        """Compare results of this machine first. Its workers get no trial of the search before `open_cohort`."""
        self._machine = machine

    def open_cohort(self, fingerprint: str) -> None:
        """Give the workers with this fingerprint trials of the search."""
        self._pending.discard(fingerprint)
        self._open.add(fingerprint)
        self._tell_change()

    def offer_cohorts(self) -> None:
        """Have the incumbent measured under each fingerprint that is not open yet."""
        for member in self.members:
            self._offer_cohort(member.machine)

    def _offer_cohort(self, machine: Machine) -> None:
        if machine.fingerprint not in self._open | self._pending:
            self._pending.add(machine.fingerprint)
            self.on_cohort(machine)

    def note_drift(self, worker: str, reason: str) -> None:
        """Take this worker's machine for another one, where the incumbent is measured first."""
        if (member := self._members.get(worker)) is None:
            return
        changes = int(member.machine.facts.get(PACE, "0")) + 1
        machine = Machine({**member.machine.facts, PACE: str(changes)})
        self._counts[member.fingerprint] -= 1
        member.change_machine(machine)
        self._counts[member.fingerprint] += 1
        self._terms.note_machine(machine)
        self._terms.record(WorkerDrifted(terms_run(self._terms), worker, machine.fingerprint, reason))
        self._terms.say(
            f"{worker} has changed: {reason}; the incumbent is measured there before anything is ranked"
        )
        self._tell_change()
        self._offer_cohort(machine)

    def give_up_cohort(self, fingerprint: str) -> None:
        """Leave these workers idle until another of them joins: the incumbent gave no result there."""
        self._pending.discard(fingerprint)
        self._tell_change()

    def has_worker(self, fingerprint: str) -> bool:
        return self._counts[fingerprint] > 0

    async def wait_for_worker(self, is_wanted: Callable[[PoolWorker], bool]) -> PoolWorker | None:
        """Wait for the first worker of this kind; None if none comes in time."""
        until = time.monotonic() + self._terms.wait_seconds
        while (left := until - time.monotonic()) > 0:
            changed = self._changed
            if found := next(filter(is_wanted, self._members.values()), None):
                return found
            if self.exhaustion():
                return None
            await _wait(changed, min(left, 1.0))
        return None

    async def execute(self, trial: Trial, on_metrics: OnMetrics, cancel: asyncio.Event) -> Outcome:
        """Run one trial on any worker that may; a lost worker is no end of it.

        Raises WorkerOutage when no worker comes in time, or the trial loses several in a row.
        """
        packed = self._terms.pack(trial)
        losses: list[str] = []
        while len(losses) < _MOST_LOSSES:
            member = await self._take_member(trial, cancel, losses)
            if member is None:
                return Outcome(Ending.CANCELLED, reason="stopped while waiting for a worker")
            lease = secrets.token_hex(16)
            try:
                await self._terms.wait_for_ledger()
                self._terms.record(TrialLeased(trial.node.id, trial.number, member.name, lease))
                # A trial is compared with its peers only where they ran on the same machine.
                is_peer = member.fingerprint == self.machine.fingerprint
                report = await member.run(packed, lease, on_metrics if is_peer else _never_prune, cancel)
            except (LinkLost, TrialFault) as error:
                # Also where sending failed, and who reads has not noticed yet: else it would be taken again.
                member.lose(str(error))
                losses.append(f"{member.name}: {error}")
                self._terms.say(f"{trial.node.name} was lost by {losses[-1]}; another worker gets it")
                await self._terms.wait_for_ledger()
                self._terms.record(LeaseLost(trial.node.id, trial.number, lease, str(error)))
                if cancel.is_set():
                    return Outcome(Ending.CANCELLED, reason="stopped on request")
                continue
            finally:
                member.is_busy = False
                self._tell_change()
            if report is None:
                return Outcome(Ending.CANCELLED, reason="stopped on request")
            await asyncio.to_thread(self._terms.keep, trial, report.files)
            return replace(report.outcome, fingerprint=member.fingerprint)
        reasons = "; ".join(losses)
        raise TrialLosesWorkers(f"node {trial.node.name} lost {len(losses)} workers in a row ({reasons})")

    async def _take_member(self, trial: Trial, cancel: asyncio.Event, losses: list[str]) -> PoolWorker | None:
        """Take a worker that is free, from now on busy; None if the wait is cancelled."""
        cohort, until = trial.cohort, 0.0
        while not cancel.is_set():
            changed = self._changed
            if member := self._free_member(cohort):
                member.is_busy = True
                return member
            if self._has_member(cohort) or (not cohort and self._pending):
                until = 0.0
            else:
                until = until or time.monotonic() + self._terms.wait_seconds
                reason = self.exhaustion() or (time.monotonic() > until and "no worker has joined")
                if reason and cohort and trial.pool.rules.judging and self._has_member(""):
                    cohort = ""  # the judge sees that the result is of another machine, and decides without it
                    continue
                if reason:
                    lost = f" after {losses[-1]}" if losses else ""
                    raise WorkerOutage(
                        f"no worker can run trials: {reason}{lost}; add one with `loopty system worker`"
                    )
            await _wait_for_any((changed, cancel), 1.0)
        return None

    def _free_member(self, cohort: str) -> PoolWorker | None:
        return next(
            (one for one in self._members.values() if not one.is_busy and self._may_run(one, cohort)), None
        )

    def _has_member(self, cohort: str) -> bool:
        return any(self._may_run(member, cohort) for member in self._members.values())

    def _may_run(self, member: PoolWorker, cohort: str) -> bool:
        fingerprint = member.fingerprint
        # Trials of the search go only where the incumbent was measured: else nothing could be compared.
        return not member.lost_reason and (fingerprint == cohort if cohort else fingerprint in self._open)

    async def admit(self, link: Link, host: str, is_known: bool = False) -> str:
        """Serve a worker until it is gone; returns why. `is_known`: the pool started it, so it needs no token."""
        try:
            greeting = await asyncio.wait_for(link.receive(), _GREETING_SECONDS)
            if reason := self._refusal(greeting, is_known):
                await link.send("refused", reason=reason)
                return reason
            name = f"{_plain_text(greeting.text('name'), 60) or host}/{next(self._numbers)}"
            ready = await asyncio.wait_for(self._set_up(link, name), _SET_UP_SECONDS)
            await self._terms.wait_for_ledger()
            member = self._join(ready, name, host, link)
        except (LinkLost, TimeoutError) as error:
            return str(error) or "the worker took too long to join"
        else:
            try:
                await member.serve(self._terms.lease_seconds)
            finally:
                await self._leave(member)
            return member.lost_reason
        finally:
            link.close()

    def _refusal(self, greeting: Frame, is_known: bool) -> str:
        """Say why somebody who greets may not join; empty if it may."""
        token = greeting.fields.get("token")
        is_token = isinstance(token, str) and hmac.compare_digest(token.encode(), self._terms.token.encode())
        if greeting.kind != "hello" or not (is_known or is_token):
            return "the URL is not, or no longer, that of this campaign: copy the one that `loopty run` shows"
        version = greeting.fields.get("version")
        if version != __version__:
            shown = _plain_text(str(version), 20)
            return f"the worker is loopty {shown}, the driver {__version__}: install the same version on both"
        if len(self._members) >= MOST_WORKERS:
            return f"the pool has {MOST_WORKERS} workers, the most it takes"
        return ""

    async def _set_up(self, link: Link, name: str) -> Frame:
        """Give the worker its rig; returns what it reports about itself."""
        terms = self._terms
        await link.send("welcome", name=name, package=message(terms.package), lease_seconds=terms.lease_seconds)
        while True:
            frame = await link.receive(0, LONGEST_HEAD)
            if frame.kind == "need":
                # The first limit at scale, on paper: ten thousand cold workers wait 27 minutes at 10 Gbit/s.
                await link.send("base", terms.base())
            elif frame.kind == "unfit":
                reason = _plain_text(frame.text("reason"), 500)
                terms.say(f"{name} cannot run trials: {reason}")
                raise LinkLost(reason)
            elif frame.kind == "ready":
                return frame

    def _join(self, frame: Frame, name: str, host: str, link: Link) -> PoolWorker:
        facts = frame.fields.get("facts")
        if not isinstance(facts, dict) or not all(isinstance(fact, str) for fact in facts.values()):
            raise LinkLost("the worker does not say what its machine is")
        if len(str(facts)) > SHORT:
            raise LinkLost("the worker says too much about its machine")
        facts.pop(PACE, None)  # the driver counts these itself
        machine = Machine(facts)
        if fault := misfit(machine):
            raise LinkLost(f"what the worker says about its machine cannot be recorded: {fault}")
        member = PoolWorker(name, host, machine, _plain_text(frame.text("sandbox"), 200), link)
        self._members[name] = member
        self.joined += 1
        self._counts[member.fingerprint] += 1
        self._terms.note_machine(machine)
        joined = WorkerJoined(terms_run(self._terms), name, host, machine.fingerprint, member.sandbox)
        self._terms.record(joined)
        self._tell_change()
        if self._machine is not None:
            self._offer_cohort(machine)
        return member

    async def _leave(self, member: PoolWorker) -> None:
        if self._members.pop(member.name, None):
            self._counts[member.fingerprint] -= 1
            self._tell_change()
            await self._terms.wait_for_ledger()
            self._terms.record(WorkerLeft(terms_run(self._terms), member.name, member.lost_reason))

    async def close(self) -> None:
        """Send all workers away."""
        await asyncio.gather(*(member.dismiss() for member in self.members))

    def _tell_change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        self.on_change()


def terms_run(terms: PoolTerms) -> int:
    """Return the run whose trials the pool gives out."""
    return terms.package.run


def _never_prune(*_: object) -> None:
    return None


def _plain_text(text: str, limit: int) -> str:
    """Return what a stranger wrote, without characters that a terminal obeys."""
    return "".join(char for char in text if char.isprintable())[:limit]


async def _wait(event: asyncio.Event, seconds: float) -> None:
    await _wait_for_any((event,), seconds)


async def _wait_for_any(events: tuple[asyncio.Event, ...], seconds: float) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
