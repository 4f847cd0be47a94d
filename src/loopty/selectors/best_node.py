"""Change the best node, always."""

from __future__ import annotations

from dataclasses import dataclass

from loopty.engine.protocols import Ask
from loopty.record.records import Node


@dataclass(frozen=True, slots=True)
class BestSelector:
    """Hill climbing."""

    def parent(self, ask: Ask) -> Node:
        return ask.best
