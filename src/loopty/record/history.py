"""The history: the fold of the ledger, or what is true now. Constant work per event.

The fold is kept as pages (one per run and some for its long mappings, one per node, one for the facts of each
block of nodes) that the ledger saves in the same commit as the events, so that a reader opens a long history
without replaying it, and reads only the nodes that it asks for. The events stay the truth: `History` folded from
all events equals `History` opened from the pages.
"""

from __future__ import annotations

from collections.abc import Mapping

from loopty.record.event import Recorded
from loopty.record.fold_state import FoldState
from loopty.record.pages import SavedNodes

FOLD_VERSION = 24
"""Increases when the fold changes, so that a ledger knows that its saved pages come from an older one."""


class History(FoldState):
    """Every run and node; grows by `apply`."""

    @classmethod
    def open(cls, number: int, runs: Mapping[str, str], nodes: SavedNodes) -> History:
        """The history after this event, with these pages of runs; nodes are read when they are asked for."""
        history = cls(nodes)
        history.update(number, runs)
        return history

    def update(self, number: int, runs: Mapping[str, str]) -> None:
        """Go on to this event, which another process wrote: it has saved these pages of runs, and the nodes."""
        self.number = number
        self._forget_decoded()
        self._blocks.clear()
        self._pools.clear()
        self.runs.update((run.number, run) for run in self._run_pages.read(runs))

    def apply(self, recorded: Recorded) -> None:
        """Fold one event in: each family that subscribes to its type, in the order of the table."""
        # Here, because reading opens the saved pages and needs no fold.
        from loopty.record.families import FOLDS

        self.number = recorded.number
        for fold in FOLDS[type(recorded.event)]:
            fold(self, recorded.event, recorded.at)
