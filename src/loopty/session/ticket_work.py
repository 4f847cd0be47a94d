"""The work of tickets: done in the background, at most `width` at a time, and ended when somebody asks."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Iterator

from loopty.domain.benchmark import Gate
from loopty.domain.errors import LooptyError, Misuse, Taken
from loopty.domain.ids import NodeId
from loopty.domain.trial import Ending
from loopty.engine.protocols import Trial
from loopty.evaluators.benchmark_runner import TreeCommand, TreeCommandEnd
from loopty.evaluators.steps import GateResult
from loopty.kit.records import Record, replace
from loopty.kit.safe_folder import SafeFile
from loopty.record.node_record import Node
from loopty.record.tickets import OpenTicket, TicketMode, Tickets, ticket_parts
from loopty.session.again import remeasure
from loopty.session.by_hand import check_trial, check_trial_result, run_node, run_to_verdict
from loopty.session.context import CampaignContext
from loopty.session.drafts import drop_draft
from loopty.session.stoppable import run_until_stopped
from loopty.session.tickets import LOG_BYTES, TicketFiles, TicketResult, attempt_of, end_ticket
from loopty.session.verdicts import add_gate

_POLL_SECONDS = 0.2


class TicketWork:
    """Does the work of tickets, one after the other."""

    def __init__(self, context: CampaignContext, files: TicketFiles) -> None:
        self._context = context
        self._files = files

    def run(self, run: int, number: int, ticket: OpenTicket) -> TicketResult | None:
        """Return the result; None if this process was asked to stop. Raises LooptyError if it cannot be done."""
        if ticket.mode is TicketMode.ATTEMPT:
            return self._attempt(ticket)
        if ticket.mode in (TicketMode.REMEASURE, TicketMode.GATE):
            return self._manage(ticket)
        node = replace(self._context.history[ticket.node], commit=ticket.commit, tree=ticket.tree)
        if ticket.params is not None:
            node = replace(node, params=ticket.params)
        trial, began = check_trial(self._context, node), time.monotonic()
        if ticket.mode is TicketMode.TUNE:
            return self._tune(ticket, trial)
        result = TicketResult(ticket.node, ticket.mode)
        if ticket.mode is TicketMode.CHECK:
            gates = self._gates(trial)
            if gates is None:
                return None
            failed = next((gate for gate in gates if gate.refusal), None)
            if failed:
                result = replace(result, problem=failed.refusal or "", lines=failed.printed.lines)
        else:
            end = self._command(run, number, ticket, trial)
            if end is None:
                return None
            result = replace(result, problem=end.stopped, code=end.code)
        return replace(result, seconds=round(time.monotonic() - began, 3))

    def _attempt(self, ticket: OpenTicket) -> TicketResult | None:
        context, node = self._context, ticket.node
        self._measure_baseline(node.run)
        while not self._node(node).verdict:
            try:
                judged = run_node(context, self._node(node), unsafe=False)
            except Taken:
                if not self._node(node).running:
                    raise
                time.sleep(_POLL_SECONDS)  # a person runs it by hand
                continue
            if judged.verdict is None:
                return None
        return TicketResult(node, ticket.mode)

    def _measure_baseline(self, run: int) -> None:
        """Measure the baseline if nobody did, once for all workers."""
        context, root = self._context, self._context.history.runs[run].root
        if self._node(root).verdict:
            return
        descriptor = self._files.baseline_lock(run).open(os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            while not self._node(root).verdict:
                if self._node(root).running:
                    time.sleep(_POLL_SECONDS)  # `loopty run` measures it
                    continue
                runner = context.trial_runner(run, context.executor(unsafe=False, run=run))
                if run_to_verdict(runner, self._node(root)).verdict is None:
                    raise Misuse("stopped while the baseline was measured: submit it again")
        finally:
            os.close(descriptor)

    def _node(self, node: NodeId) -> Node:
        return self._context.recorder.refresh()[node]

    def _tune(self, ticket: OpenTicket, trial: Trial) -> TicketResult | None:
        trial = replace(trial, slice=self._context.task.tune.slice)
        found = check_trial_result(self._context, trial, unsafe=False)
        outcome = found.outcome
        if outcome.ending is Ending.CANCELLED and outcome.reason.startswith("stopped "):
            return None
        return TicketResult(
            ticket.node,
            ticket.mode,
            problem=found.problem or "",
            metrics=outcome.metrics,
            lines=outcome.error_lines,
            seconds=outcome.seconds,
        )

    def _manage(self, ticket: OpenTicket) -> TicketResult:
        if ticket.mode is TicketMode.REMEASURE:
            judged = remeasure(self._context, ticket.node.run, ticket.node, unsafe=False)
            lines = tuple(f"{node.name} {node.verdict or 'still open'}" for node in judged)
        else:
            gate = Gate(**json.loads(ticket.command))
            change = add_gate(self._context, ticket.node, gate, unsafe=False)
            lines = (
                f"gate {gate.name} added",
                *(f"{self._context.history.name(node)} withdrawn" for node in change.withdrawn),
            )
        return TicketResult(ticket.node, ticket.mode, lines=lines)

    def _gates(self, trial: Trial) -> list[GateResult] | None:
        run_gates = self._context.run_gates(unsafe=False)

        async def run(cancel: asyncio.Event) -> list[GateResult] | None:
            async with self._context.hold_place(cancel) as refusal:
                return None if refusal else await run_gates(trial, cancel)

        results = run_until_stopped(run)
        return None if results is None or any(result.stopped for result in results) else results

    def _command(self, run: int, number: int, ticket: OpenTicket, trial: Trial) -> TreeCommandEnd | None:
        run_in_tree, log = self._context.run_in_tree(unsafe=False), self._files.log(run, number)
        log.write(b"")
        room, is_stopped = LOG_BYTES, False

        def keep(text: str) -> None:
            nonlocal room
            raw = text.encode(errors="replace")[:room]
            room -= len(raw)
            if raw:
                log.append(raw)

        command = TreeCommand(("/bin/sh", "-c", ticket.command), keep, keep)

        async def run_it(cancel: asyncio.Event) -> TreeCommandEnd | None:
            nonlocal is_stopped
            async with self._context.hold_place(cancel) as refusal:
                end = None if refusal else await run_in_tree(trial, command, cancel)
            is_stopped = cancel.is_set()
            return end

        end = run_until_stopped(run_it)
        return None if is_stopped else end


# A worker is a process that a client's call began in. Which tickets it works on is known by locks, which are free
# the moment it dies; a ticket that lost its worker is still open in the ledger, and the next worker takes it.


_MOST_STARTS = 3
"""A ticket whose worker dies so many times is given up."""
_OPEN = os.O_RDWR | os.O_CREAT


class _HeldTicket(Record):
    """A ticket that this worker has locked."""

    run: int
    number: int
    ticket: OpenTicket
    starts: int


class TicketWorker:
    """One worker."""

    def __init__(self, context: CampaignContext) -> None:
        self._context = context
        self._files = TicketFiles(context.state)
        self._work = TicketWork(context, self._files)

    def work(self, after_each: Callable[[], None] = lambda: None) -> bool:
        """Run tickets that nobody works on; False where there is none, or are workers enough.

        Call it again when it returns True: a ticket that came at the last moment found no free place for a worker.
        """
        if next(self._free_tickets(), None) is None:
            return False
        with self._place() as is_held:
            if not is_held:
                return False
            while True:
                with self._take() as held:
                    if held is None:
                        return True
                    self._run(held)
                after_each()

    @contextlib.contextmanager
    def _place(self) -> Iterator[bool]:
        """Yield True while this is one of the `width` workers, else False."""
        for number in range(self._context.task.width):
            with lock_ticket(self._files.worker_lock(number)) as descriptor:
                if descriptor is not None:
                    yield True
                    return
        yield False

    def _free_tickets(self) -> Iterator[tuple[int, int, OpenTicket]]:
        for run in list(self._context.recorder.refresh().runs.values()):
            for number, ticket in Tickets.of(run).open.items():
                with lock_ticket(self._files.lock(run.number, number)) as descriptor:
                    is_free = descriptor is not None
                if is_free:
                    yield run.number, int(number), ticket

    @contextlib.contextmanager
    def _take(self) -> Iterator[_HeldTicket | None]:
        """Lock the oldest open ticket that nobody works on."""
        for run, number, ticket in self._free_tickets():
            with lock_ticket(self._files.lock(run, number)) as descriptor:
                if descriptor is None or not self._is_open(run, number):
                    continue
                before = os.pread(descriptor, 32, 0).split()
                starts = int(before[1]) + 1 if len(before) > 1 else 1
                os.pwrite(descriptor, b"%-12d %-12d\n" % (os.getpid(), starts), 0)
                yield _HeldTicket(run, number, ticket, starts)
                return
        yield None

    def _is_open(self, run: int, number: int) -> bool:
        return str(number) in Tickets.of(self._context.recorder.refresh().runs[run]).open

    def _run(self, held: _HeldTicket) -> None:
        """Do the work of a ticket and record its end. Ends this process where it was asked to stop before that."""
        run, number, ticket = held.run, held.number, held.ticket
        began = time.monotonic()
        try:
            if held.starts > _MOST_STARTS:
                raise LooptyError(f"the process that ran it died {_MOST_STARTS} times")
            result = self._work.run(run, number, ticket)
            if result is None:
                if self._is_open(run, number):  # whoever aborts a ticket ends it first
                    raise KeyboardInterrupt
                return
        except LooptyError as error:
            result = TicketResult(ticket.node, ticket.mode, fault=str(error), seconds=time.monotonic() - began)
        except Exception as error:  # noqa: BLE001 - the boundary of the process
            result = TicketResult(ticket.node, ticket.mode, fault=f"loopty failed: {error!r}")
        self._files.save(run, number, result)
        end_ticket(self._context, run, number, result.fault)
        self._files.lock(run, number).remove()


def worker_of(files: TicketFiles, run: int, number: int) -> int | None:
    """Return the number of the process that works on a ticket, or None."""
    with lock_ticket(files.lock(run, number)) as descriptor:
        if descriptor is not None:
            return None
    written = files.lock(run, number).read(32).split()
    return int(written[0]) if written else None


@contextlib.contextmanager
def lock_ticket(file: SafeFile) -> Iterator[int | None]:
    """Yield the descriptor of the file while it is locked here; None where another process holds it."""
    descriptor = file.open(_OPEN, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def abort_node(context: CampaignContext, node: Node, why: str) -> str:
    """End the open ticket of a node, or give up its draft; returns what was done. Raises Misuse."""
    if name := attempt_of(context.history, node):
        return abort_ticket(context, name, why)
    if not node.draft:
        raise Misuse(f"{node.name} has no open ticket: nothing to abort")
    drop_draft(context, node.id)
    return f"dropped {node.name}"


def abort_ticket(context: CampaignContext, name: str, why: str) -> str:
    """End a ticket and stop what runs for it. Its node can be submitted again. Raises Misuse."""
    run, number = ticket_parts(name)
    found = context.history.runs.get(run)
    ticket = Tickets.of(found).open.get(str(number)) if found else None
    if ticket is None:
        raise Misuse(f"{name} is not open: it has ended, or never was")
    files = TicketFiles(context.state)
    reason = f"aborted: {why}" if why else "aborted"
    files.save(run, number, TicketResult(ticket.node, ticket.mode, fault=reason))
    worker = worker_of(files, run, number)
    end_ticket(context, run, number, reason)
    if worker and worker == worker_of(files, run, number):
        os.kill(worker, signal.SIGINT)
    return f"aborted {name} ({ticket.mode} of {context.history.name(ticket.node)})"
