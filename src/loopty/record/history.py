"""The history: the fold of the ledger, or what is true now. Constant work per event.

The fold is kept as pages (one per run and some for its long mappings, one per node, one for the facts of each
block of nodes) that the ledger saves, so that a reader opens a long history without replaying it, and reads only
the nodes that it asks for. Pages may be some events behind: whoever opens the history folds these in. The events
stay the truth: `History` folded from all events equals `History` opened from the pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from loopty.domain.errors import Misuse
from loopty.record.event import Recorded
from loopty.record.fold_state import FoldState
from loopty.record.pages import UNREADABLE

FOLD_VERSION = 26
"""Increases when the fold changes, so that a ledger knows that its saved pages come from an older one."""
_UNKNOWN = -1


class History(FoldState):
    """Every run and node; grows by `apply`."""

    def catch_up(
        self,
        number: int,
        saved_number: int,
        runs: Callable[[], Mapping[str, str]],
        events: Callable[[int], Iterable[Recorded]],
    ) -> None:
        """Go on to event `number`: from the saved pages where they know more, then by the events after them.

        `runs` reads the saved pages of the runs; nodes are read when they are asked for. Where reading breaks off,
        half of a step may be done: the next call starts from what is saved.
        """
        try:
            if saved_number > self.saved_number or number < self.number:  # a server may have lost events
                self._take_saved(saved_number, runs())
            if number != self.number:
                self._apply_all(events(self.number))
        except BaseException:
            self.start_over()
            raise

    def start_over(self) -> None:
        """Let the next `catch_up` start from what is saved."""
        self.number = self.saved_number = _UNKNOWN

    def _apply_all(self, events: Iterable[Recorded]) -> None:
        for recorded in events:
            self.apply_read(recorded)

    def apply_read(self, recorded: Recorded) -> None:
        """Fold in an event that the ledger holds: one that cannot be is set aside, and hides no other.

        What its first folds did before one failed stays; nothing is recorded after such an event.
        """
        from loopty.record.unreadable import UnreadableEvent, set_aside

        if type(recorded.event) is UnreadableEvent:
            self.number = recorded.number
            set_aside(self, recorded, recorded.event.fault)
            return
        try:
            self.apply(recorded)
        except (*UNREADABLE, Misuse) as error:
            set_aside(self, recorded, f"it does not fit the events before it: {error}")

    def _take_saved(self, number: int, runs: Mapping[str, str]) -> None:
        """Start from what is saved, up to this event."""
        self.number = self.saved_number = number
        self._saved_count = self._saved.count()
        self._forget_decoded()
        self._forget_unsaved()
        self._blocks.clear()
        self._pools.clear()
        self.runs.clear()
        self.runs.update((run.number, run) for run in self._run_pages.read(runs))

    def apply(self, recorded: Recorded) -> None:
        """Fold one event in: each family that subscribes to its type, in the order of the table."""
        # Here, because reading opens the saved pages and needs no fold.
        from loopty.record.families import folds

        self.number = recorded.number
        for fold in folds(type(recorded.event)):
            fold(self, recorded.event, recorded.at)
