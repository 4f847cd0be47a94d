"""How a trial ended, and the verdict about a node."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from loopty.domain.cascade_spec import StageResult
from loopty.domain.objective import Direction
from loopty.kit.records import Record, field


class Ending(StrEnum):
    FINISHED = "finished"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    PRUNED = "pruned"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    """A gate or the verifier refused the node."""
    STOPPED = "stopped"
    """A stage of the cascade stopped it: it was not worth the whole benchmark."""
    TAMPERED = "tampered"
    """The benchmark's files changed while it ran."""


class Integrity(StrEnum):
    """Whether the candidate could reach the evaluator, or run while the evaluator measures something else."""

    STRONG = "strong"
    WEAK = "weak"


NOT_FROZEN = "the candidate could run between calls: its processes cannot be stopped here"
KNOWN_INPUTS = "the candidate was timed on inputs that it had been given before, and could remember their answers"


class Verdict(StrEnum):
    KEPT = "kept"
    DISCARDED = "discarded"
    INCONCLUSIVE = "inconclusive"
    REJECTED = "rejected"
    """A gate or the verifier refused it, or it tampered with the benchmark: it is never kept."""
    QUARANTINED = "quarantined"
    HELD = "held"
    """Its gain is too good to be true: it becomes the best only when a person accepts it."""


class Effect(Record):
    """How much better a node is than the incumbent, from paired measurements."""

    metric: str
    """The metric that decided; empty where it differs between pairs: then `amount` is in units of noise."""
    amount: float
    low: float | None
    high: float | None
    """The ends of the interval; None where it is open."""
    pairs: int
    error_rate: float


class Outcome(Record):
    """The result of one trial. `metrics` is empty unless the benchmark reported some; nothing is invented."""

    ending: Ending
    metrics: Mapping[str, float] = field(default_factory=dict)
    directions: Mapping[str, Direction] = field(default_factory=dict)
    reason: str = ""
    seconds: float = 0.0
    unenforced: tuple[str, ...] = ()
    integrity: Integrity | None = None
    """None where it is unknown."""
    fingerprint: str = ""
    """Digest of the machine and the toolchain: results under different fingerprints are not comparable."""
    step: float | None = None
    """The step of the last metrics, for a pruned trial."""
    rows_left_out: int = 0
    """Rows of the metrics CSV that the curve does not hold, because there were too many. It holds the last one."""
    outside_cpu_seconds: float = 0.0
    """The CPU that an isolated candidate used between the benchmark's calls, while it should stand still."""
    error_lines: tuple[str, ...] = ()
    """What a failed trial printed about its error, in a few lines."""
    log: str = ""
    """The file below the trial's folder that has these lines and all others; empty where nothing failed."""
    cascade: tuple[StageResult, ...] = ()
    """The stages of the cascade that ran before the benchmark; `seconds` includes theirs."""
    artifacts: Mapping[str, str] = field(default_factory=dict)
    """What the trial published for later combination: the SHA-256 of each file by its name."""
    artifacts_left_out: int = 0
    """Files that were not kept: too large, too many, links, or names that are not plain."""

    timed_inputs: str = ""
    """A digest of the inputs on which an isolated candidate was timed; empty where it was not."""

    @property
    def is_finished(self) -> bool:
        return self.ending is Ending.FINISHED

    @property
    def weakness(self) -> str:
        """Why its integrity is weak, in words; empty where it is not."""
        if self.integrity is not Integrity.WEAK:
            return ""
        known = (words for words in self.unenforced if words in (NOT_FROZEN, KNOWN_INPUTS))
        return next(known, "the candidate could reach the code that scored it")
