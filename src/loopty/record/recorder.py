"""Writes decisions to the ledger and keeps the history in step with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from loopty.record.events import Event, Recorded
from loopty.record.history import History
from loopty.record.ledger import Ledger

Decide = Callable[[History], Iterable[Event]]
"""Makes events of the history; a generator finds what it has yielded folded in already."""


class Recorder:
    """One process's hand on the ledger."""

    def __init__(self, ledger: Ledger, clock: Callable[[], float]) -> None:
        self._ledger = ledger
        self._clock = clock
        self.history = ledger.history()
        self.listeners: list[Callable[[Recorded], None]] = []
        """Told of every event that this process records, after it is durable."""

    def record(self, decide: Decide) -> Sequence[Recorded]:
        """Record what `decide` makes of the history as it is now, with nobody writing in between."""
        events: list[Recorded] = []
        try:
            with self._ledger.write_lock() as turn:
                for recorded in turn.events_after(self.history.number):
                    self.history.apply(recorded)
                self.history.changed_pages()  # the process that wrote them has saved their pages
                at = self._clock()
                for event in decide(self.history):
                    events.append(Recorded(self.history.number + 1, at, event))
                    self.history.apply(events[-1])
                if events:
                    turn.write(events, self.history.changed_pages())
        except BaseException:
            if events:
                self.history = self._ledger.history()  # it held what was never written
            raise
        for recorded in events:
            for listener in self.listeners:
                listener(recorded)
        return events

    def refresh(self) -> History:
        """The history with what other processes have written since."""
        for recorded in self._ledger.read(self.history.number):
            self.history.apply(recorded)
        self.history.changed_pages()
        return self.history
