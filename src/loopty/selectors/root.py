"""Always change the baseline: search without memory."""

from __future__ import annotations

from loopty.engine.protocols import Ask, Selection
from loopty.kit.dataclass import Record, dataclass


@dataclass(frozen=True, slots=True)
class RootSelector(Record):
    """The null hypothesis of every search: it never builds on what it found."""

    def select(self, ask: Ask) -> Selection:
        return Selection(ask.root, "always the baseline")
