"""Always change the baseline: search without memory."""

from __future__ import annotations

from dataclasses import dataclass

from loopty.engine.protocols import Ask, Selection


@dataclass(frozen=True, slots=True)
class RootSelector:
    """The null hypothesis of every search: it never builds on what it found."""

    def select(self, ask: Ask) -> Selection:
        return Selection(ask.root, "always the baseline")
