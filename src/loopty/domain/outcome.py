"""What happened to a trial, and what we decided of a node."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from loopty.domain.objective import Direction


class Ending(enum.StrEnum):
    FINISHED = "finished"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    PRUNED = "pruned"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    """A gate said no, or the verifier did."""
    TAMPERED = "tampered"
    """The benchmark changed while it ran."""


class Integrity(enum.StrEnum):
    """Whether the candidate could reach what scored it."""

    STRONG = "strong"
    WEAK = "weak"


class Verdict(enum.StrEnum):
    KEPT = "kept"
    DISCARDED = "discarded"
    INCONCLUSIVE = "inconclusive"
    REJECTED = "rejected"
    """By a gate or the verifier, or because it tampered with the benchmark: never kept."""
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class Effect:
    """By how much a node is better than the one it was judged against, from paired measurements."""

    metric: str
    """What decided; empty where different metrics did in different pairs, and `amount` is in units of noise."""
    amount: float
    low: float | None
    high: float | None
    """The interval, open where it is None."""
    pairs: int
    error_rate: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one trial. `metrics` is empty unless the benchmark reported; nothing is ever invented."""

    ending: Ending
    metrics: Mapping[str, float] = field(default_factory=dict)
    directions: Mapping[str, Direction] = field(default_factory=dict)
    reason: str = ""
    seconds: float = 0.0
    unenforced: tuple[str, ...] = ()
    integrity: Integrity | None = None
    """None where nothing is known of it."""
    fingerprint: str = ""
    """Of the machine and the toolchain: results under different ones are not comparable."""

    @property
    def is_finished(self) -> bool:
        return self.ending is Ending.FINISHED
