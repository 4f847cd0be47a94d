"""Change the baseline, always: search without memory."""

from __future__ import annotations

from dataclasses import dataclass

from loopty.engine.protocols import Ask
from loopty.record.records import Node


@dataclass(frozen=True, slots=True)
class RootSelector:
    """The null hypothesis of every search: it never builds on what it found."""

    def parent(self, ask: Ask) -> Node:
        return ask.root
