"""Always change the best node."""

from __future__ import annotations

from dataclasses import dataclass

from loopty.engine.protocols import Ask, Selection


@dataclass(frozen=True, slots=True)
class BestSelector:
    """Hill climbing."""

    def select(self, ask: Ask) -> Selection:
        return Selection(ask.best, "the best node so far")
