"""Runs open tickets in the background: at most `width` workers for a repository, oldest ticket first.

A worker is a process that a client's call began in. Which tickets it works on is known by locks, which are free
the moment it dies; a ticket that lost its worker is still open in the ledger, and the next worker takes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator

from loopty.campaign.context import CampaignContext
from loopty.campaign.ticket_desk import end_ticket
from loopty.campaign.ticket_results import TicketFiles, TicketResult
from loopty.campaign.ticket_work import TicketWork
from loopty.domain.errors import LooptyError
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFile
from loopty.record.tickets import OpenTicket, Tickets

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
    """The number of the process that works on a ticket, or None."""
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
