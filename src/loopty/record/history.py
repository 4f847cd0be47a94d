"""The history: the fold of the ledger, or what is true now. Constant work per event.

The fold is kept as pages (one per run, one per node) that the ledger saves in the same commit as the events, so
that a reader opens a long history without replaying it. The events stay the truth: `History` folded from all
events equals `History` opened from the pages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from loopty.domain.ids import NodeId
from loopty.kit import codec
from loopty.record.event import Recorded
from loopty.record.fold_state import FoldState
from loopty.record.run_record import Run

FOLD_VERSION = 14
"""Increases when the fold changes, so that a ledger knows that its saved pages come from an older one."""


class History(FoldState):
    """Every run and node; grows by `apply`."""

    @classmethod
    def open(cls, number: int, pages: Iterable[tuple[Any, ...]]) -> History:
        """The history in these pages (key, body); nodes are decoded at their first use."""
        history = cls()
        history.number = number
        for key, body in pages:
            if key.startswith("run "):
                run = codec.build(Run, json.loads(body))
                history.runs[run.number] = run
            else:
                history._nodes[NodeId(key)] = body
        return history

    def apply(self, recorded: Recorded) -> None:
        """Fold one event in: each family that subscribes to its type, in the order of the table."""
        # Here, because reading opens the saved pages and needs no fold.
        from loopty.record.families import FOLDS

        self.number = recorded.number
        for fold in FOLDS[type(recorded.event)]:
            fold(self, recorded.event, recorded.at)
