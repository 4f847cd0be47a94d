"""Always change the best node."""

from __future__ import annotations

from loopty.engine.protocols import Ask, Selection
from loopty.kit.dataclass import Record, dataclass


@dataclass(frozen=True, slots=True)
class BestSelector(Record):
    """Hill climbing."""

    def select(self, ask: Ask) -> Selection:
        return Selection(ask.best, "the best node so far")
