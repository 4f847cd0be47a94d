"""What is recorded of a repository that was drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class WildRepository:
    """A name that was drawn."""

    name: str
    registry: str
    language: str


@dataclass(frozen=True)
class WildResult:
    """What became of a name: passed over, or tried."""

    name: str
    registry: str
    language: str
    passed_over: str = ""
    """Why it could not be tried here; empty where it was."""
    version: str = ""
    proven: bool = False
    """By `loopty init --yes` alone."""
    sensitivity: dict[str, Any] | None = None
    """What planted changes did to the score, as `init --json` says it."""
    score: str = ""
    """What is measured where neither a benchmark nor tests could be: loading or building; else empty."""
    seconds: int = 0
    command: str = ""
    message: str = ""
    """Why it was not proven."""
    line: str = ""
    """The line to paste that the message held."""
    again: str = ""
    """What a second try gave, and why there was one; the figures of the sample are those of the first."""
