"""A notice: something happened that a person wants to know, wherever that person is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from loopty.kit.records import Record


class NoticeKind(StrEnum):
    NEW_BEST = "new-best"
    HELD = "held"
    """A gain too good to be true waits for a look."""
    STALLED = "stalled"
    BUDGET_80 = "budget-80"
    BUDGET_100 = "budget-100"
    FINISHED = "finished"
    TEST = "test"


class Notice(Record):
    """What happened, in a line and in a sentence."""

    kind: NoticeKind
    run: int
    title: str
    text: str
    node: str = ""
    repository: str = ""
    """The name of the repository's folder."""


@dataclass(frozen=True, slots=True)
class NoticeSettings:
    """Where notices go. They are the user's own, never a task file's: a clone must not run or call anything."""

    desktop: bool = False
    webhook: str = ""
    """An address that gets the notice as JSON."""
    command: tuple[str, ...] = ()
    """A command that gets the notice as JSON on standard input."""
    on: tuple[NoticeKind, ...] = tuple(NoticeKind)

    @property
    def has_receiver(self) -> bool:
        return bool(self.desktop or self.webhook or self.command)
