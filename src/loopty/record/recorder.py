"""Records decisions in the ledger and keeps the history in step with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from loopty.domain.declared_types import misfit
from loopty.domain.errors import Misuse
from loopty.record.fold import Event, Recorded
from loopty.record.history import History, refuse_unreadable
from loopty.record.ledger import Ledger, OnProgress, WriteLost

if TYPE_CHECKING:
    import asyncio

Decide = Callable[[History], Iterable[Event]]
"""Makes events from the history. A generator finds the events that it has yielded already folded in."""
_MOST_LOST_WRITES = 10
"""In a row, before the recorder gives up."""
_SECONDS_TO_WAIT = 0.02


class Recorder:
    """One process's access to the ledger."""

    def __init__(self, ledger: Ledger, clock: Callable[[], float], on_progress: OnProgress | None = None) -> None:
        """`on_progress` hears how far the history of an older loopty is made anew."""
        self._ledger = ledger
        self._clock = clock
        self.history = ledger.history(on_progress)
        self.listeners: list[Callable[[Recorded], None]] = []
        """Called with every event that this process records, after the event is durable."""
        self.on_wait: Callable[[str], None] = lambda _: None
        """Called with a line for a person when the ledger is away, and when it is back."""
        self._return: asyncio.Task[None] | None = None
        self._gathers = False
        """Whether events may wait for the next ones."""
        self._waiting: list[Event] = []
        """Events that are recorded with the next ones."""
        self._timer: asyncio.TimerHandle | None = None

    def record(self, decide: Decide) -> Sequence[Recorded]:
        """Record the events that `decide` makes from the present history. Nobody else writes in between.

        Where the connection to the ledger breaks before the events are durable, it decides again.
        """
        for _ in range(_MOST_LOST_WRITES):
            try:
                events, refusal = self._write(decide)
                break
            except WriteLost as error:
                lost = error
        else:
            raise lost
        for recorded in events:
            for listener in self.listeners:
                listener(recorded)
        if refusal:
            raise refusal
        return events

    def record_soon(self, event: Event) -> None:
        """Record an event together with the next one, or after a moment: each record takes a disk its time.

        Only where nobody relies on it meanwhile; outside a session it is recorded now.
        """
        _refuse_misfit(event)  # here, because one that waited would stop all that come after it
        if not self._gathers:
            self.record(lambda _: [event])
            return
        self._waiting.append(event)
        if self._timer is None:
            import asyncio  # here: verbs that only read do not need it

            self._timer = asyncio.get_running_loop().call_later(_SECONDS_TO_WAIT, self._record_on_time)

    def record_waiting(self) -> None:
        """Record the events that wait for the next one, if there are some, and if the ledger is not away."""
        if self._waiting and not self._ledger.is_away():
            self.record(lambda _: ())

    def _record_on_time(self) -> None:
        self._timer = None
        with suppress(Misuse):  # whoever records next hears it
            self.record_waiting()

    def _write(self, decide: Decide) -> tuple[Sequence[Recorded], Exception | None]:
        """Record what waits and what `decide` makes; its refusal, where only what waits was recorded."""
        events: list[Recorded] = []
        refusal: Exception | None = None
        try:
            with self._ledger.write_lock() as lock:
                self._ledger.update(self.history)
                refuse_unreadable(self.history)
                at = self._clock()

                def note(event: Event) -> None:
                    _refuse_misfit(event)
                    events.append(Recorded(self.history.number + 1, at, event))
                    self.history.apply(events[-1])

                # Decided under the lock, on what others wrote: two processes never run one node twice, and no more
                # trials start than the budget allows.
                for event in self._waiting:
                    note(event)
                try:
                    for event in decide(self.history):
                        note(event)
                except Exception as error:
                    if not self._waiting or len(events) > len(self._waiting):
                        raise
                    refusal = error  # what waited is recorded all the same
                if events:
                    lock.write(events, self.history)
        except BaseException:
            if events:  # it holds events that were never written, and asking for another may fail
                self.history.start_over()
                self.history = self._ledger.history()
            raise
        self._waiting.clear()
        return events, refusal

    @asynccontextmanager
    async def gathering(self) -> AsyncIterator[None]:
        """Let events wait for the next ones inside the block: see `record_soon`."""
        self._gathers = True
        try:
            yield
        finally:
            self._gathers = False
            if self._timer:
                self._timer.cancel()
                self._timer = None
            if self._waiting:
                self.record(lambda _: ())

    async def wait_for_ledger(self) -> None:
        """Wait while the ledger's server is away, and let everything else go on. Raises Misuse after minutes.

        Whoever may wait calls it before it records. Without it, a record waits, too, and everything with it.
        """
        if not self._ledger.is_away():
            return
        # Imported here: verbs that only read need neither.
        import asyncio

        from loopty.record.ledger_wait import wait_until_back

        if self._return is None or self._return.done():
            self._return = asyncio.create_task(wait_until_back(self._ledger, self.on_wait))
        await asyncio.shield(self._return)

    def refresh(self) -> History:
        """Return the history with the events that other processes have written since."""
        self._ledger.update(self.history)
        return self.history


def _refuse_misfit(event: Event) -> None:
    """Let no event in that could not be read back: one closes the ledger for everybody."""
    if fault := misfit(event):
        raise Misuse(f"{type(event).__name__} was not recorded: {fault}")
