"""Records decisions in the ledger and keeps the history in step with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from loopty.record.event import Event, Recorded
from loopty.record.history import History
from loopty.record.ledger import Ledger, OnProgress, WriteLost

if TYPE_CHECKING:
    import asyncio

Decide = Callable[[History], Iterable[Event]]
"""Makes events from the history. A generator finds the events that it has yielded already folded in."""
_MOST_LOST_WRITES = 10
"""In a row, before the recorder gives up."""


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

    def record(self, decide: Decide) -> Sequence[Recorded]:
        """Record the events that `decide` makes from the present history. Nobody else writes in between.

        Where the connection to the ledger breaks before the events are durable, it decides again.
        """
        for _ in range(_MOST_LOST_WRITES):
            try:
                events = self._write(decide)
                break
            except WriteLost as error:
                lost = error
        else:
            raise lost
        for recorded in events:
            for listener in self.listeners:
                listener(recorded)
        return events

    def _write(self, decide: Decide) -> Sequence[Recorded]:
        events: list[Recorded] = []
        try:
            with self._ledger.write_lock() as lock:
                self._ledger.update(self.history)
                at = self._clock()
                for event in decide(self.history):
                    events.append(Recorded(self.history.number + 1, at, event))
                    self.history.apply(events[-1])
                if events:
                    lock.write(events, self.history.take_changed_pages())
        except BaseException:
            if events:
                self.history = self._ledger.history()  # it held events that were never written
            raise
        return events

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
        """The history with the events that other processes have written since."""
        self._ledger.update(self.history)
        return self.history
