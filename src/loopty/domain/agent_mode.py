"""How a coding agent in its own host is to work, as the user wants it."""

from __future__ import annotations

from enum import StrEnum

from loopty.kit.records import Record


class AgentMode(StrEnum):
    """Each is on or off, and on where nobody said anything."""

    AUTONOMOUS = "autonomous"
    """It goes on until the budget is spent."""
    SUBAGENTS_ONLY = "subagents-only"
    """It leaves edits to its subagents."""


class ModeSource(StrEnum):
    """Who said so; an earlier one wins."""

    INSTRUCTION = "this environment"
    WORKSPACE = "this repository's setting"
    USER = "your own default"
    NOBODY = "the default"


class ModeSetting(Record):
    """Whether a mode is on, and who said so."""

    mode: AgentMode
    is_on: bool
    source: ModeSource

    def __str__(self) -> str:
        return f"{self.mode} is {'on' if self.is_on else 'off'} ({self.source})"
