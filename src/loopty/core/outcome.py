"""What happened to a trial, and what we decided of a node."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from loopty.core.objective import Direction


class Pool(enum.StrEnum):
    """Which budget pays for a trial."""

    ATTEMPT = "attempt"
    CONTROL = "control"
    REPLAY = "replay"
    CHECK = "check"


class Ending(enum.StrEnum):
    FINISHED = "finished"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    PRUNED = "pruned"
    CANCELLED = "cancelled"


class Verdict(enum.StrEnum):
    KEPT = "kept"
    DISCARDED = "discarded"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one trial. `metrics` is empty unless the benchmark reported; nothing is ever invented."""

    ending: Ending
    metrics: Mapping[str, float] = field(default_factory=dict)
    directions: Mapping[str, Direction] = field(default_factory=dict)
    reason: str = ""
    seconds: float = 0.0
    unenforced: tuple[str, ...] = ()

    @property
    def finished(self) -> bool:
        return self.ending is Ending.FINISHED
