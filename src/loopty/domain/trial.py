"""A trial as data: the budget that pays for it, its machine, its curve, how it ended, and the verdict."""

from __future__ import annotations

import bisect
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum

from loopty.domain.benchmark import StageResult
from loopty.domain.objective import Direction, Directions, Metric
from loopty.kit.contents import sha256
from loopty.kit.records import Record, field


class GateScope(StrEnum):
    """Which gates a trial must pass."""

    ALL = "all"
    METRICS = "metrics"
    """Bounds on metrics hold for every measurement; a gate's command runs once per node."""
    NONE = "none"


class PoolRules(Record):
    """What holds for the trials of one pool."""

    searches: bool = False
    """A proposer fills the pool; its nodes compete to be its best, and its trials may be pruned."""
    judging: bool = True
    """The trial serves a verdict. Other trials only observe: they change no verdict."""
    gates: GateScope = GateScope.NONE
    scored: bool = True
    """The result must hold the metrics of the objective."""
    verifier_metrics: bool = True
    """The verifier adds the metrics under [[verifier.judged]]."""
    limit: str = ""
    """The key under [budget] that limits the pool; empty where nothing does."""


class Pool(StrEnum):
    """A budget that pays for trials. A new pool is one line here."""

    rules: PoolRules

    def __new__(cls, value: str, rules: PoolRules) -> Pool:
        member = str.__new__(cls, value)
        member._value_ = value
        member.rules = rules
        return member

    ATTEMPT = "attempt", PoolRules(searches=True, gates=GateScope.ALL, limit="attempts")
    CONTROL = "control", PoolRules(searches=True, gates=GateScope.ALL, limit="control")
    VERSION = "version", PoolRules(searches=True, gates=GateScope.ALL)
    """Past versions of the code, which `[anchors]` names. They compete with the baseline and one another."""
    REPLAY = "replay", PoolRules(judging=False, gates=GateScope.ALL)
    CHECK = "check", PoolRules(judging=False, gates=GateScope.ALL, verifier_metrics=False)
    TUNE = "tune", PoolRules(judging=False, scored=False, verifier_metrics=False, limit="tunes")
    """Measurements of a draft or a proposal, on the slice of `[tune]`. None is judged or ranked."""
    REPEAT = "repeat", PoolRules(gates=GateScope.METRICS, limit="repeats")
    """Measurements that tell a difference from noise."""
    REBASE = "rebase", PoolRules(judging=False)
    """Measurements of a known node on another machine."""
    CONFIRM = "confirm", PoolRules(judging=False, gates=GateScope.METRICS)
    """Fresh pairs of the best node and the baseline, for the headline."""
    AUDIT = "audit", PoolRules(judging=False, scored=False, verifier_metrics=False)
    """Measurements on the held-out split, which may report any metric."""
    REVIEW = "review", PoolRules(scored=False)
    """The verifier looks at a node that is about to be kept; nothing is measured."""


SEARCH_POOLS = tuple(pool for pool in Pool if pool.rules.searches)
BUDGETED_POOLS = tuple(pool for pool in Pool if pool.rules.limit)


class Machine(Record):
    """The known facts about a machine and about the tools that trials find on it."""

    facts: Mapping[str, str]

    @property
    def fingerprint(self) -> str:
        """Compute a digest of the facts, in any order: 12 hexadecimal characters."""
        return sha256(json.dumps(dict(self.facts), sort_keys=True).encode()).hexdigest()[:12]


def differences(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """List the facts in which two machines differ, a line each."""
    return [
        f"{name}: {one.get(name, 'unknown')}, now {other.get(name, 'unknown')}"
        for name in {**one, **other}
        if one.get(name) != other.get(name)
    ]


# They are kept beside the fold, not in it.


class Row(Record):
    """One complete row of the metrics stream."""

    step: float
    metrics: Mapping[str, float]


class Curve(Record):
    """The most important metric of one trial over its steps, oldest first."""

    points: tuple[tuple[float, float], ...]
    direction: Direction
    metric: str = ""

    def at(self, step: float) -> float | None:
        """Return the value at this step; None if the trial never reached it."""
        if not self.points or self.points[-1][0] < step:
            return None
        passed = bisect.bisect_right(self.points, step, key=lambda point: point[0])
        return self.points[passed - 1][1] if passed else None

    def is_worse(self, value: float, than: float) -> bool:
        return self.direction.sign * (value - than) < 0


def metric_of_curve(rows: Sequence[Row], directions: Directions, counting: Metric) -> Metric:
    """Choose the metric by which a trial is followed: the one that counts, or the leftmost that it reports."""
    names = rows[-1].metrics
    if counting.name in names:
        return counting
    name = next(iter(names))
    return Metric(name, directions.get(name, counting.direction))


def metric_curve(rows: Sequence[Row], metric: str, direction: Direction) -> Curve:
    """Return the curve of one metric; rows without it are skipped."""
    return Curve(
        tuple((row.step, row.metrics[metric]) for row in rows if metric in row.metrics), direction, metric
    )


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

    stalled: float = 0.0
    """The share of its time in which something on the machine waited for a CPU: others used it, too."""
    timed_inputs: str = ""
    """A digest of the inputs on which an isolated candidate was timed; empty where it was not."""

    @property
    def is_finished(self) -> bool:
        return self.ending is Ending.FINISHED

    @property
    def weakness(self) -> str:
        """Tell why its integrity is weak, in words; empty if it is not."""
        if self.integrity is not Integrity.WEAK:
            return ""
        known = (words for words in self.unenforced if words in (NOT_FROZEN, KNOWN_INPUTS))
        return next(known, "the candidate could reach the code that scored it")


class Leftovers(Record):
    """The files of a node's folder, shortened. Programs and models wrote them, so they are shown fenced."""

    diff: str = ""
    """Its change to the parent."""
    stdout: str = ""
    """The end of its output."""
    stderr: str = ""
    traces: Mapping[str, str] = field(default_factory=dict)
    """By task, failed ones first: score, summary, reason of the failure, log."""
    artifacts: Mapping[str, str] = field(default_factory=dict)
    """The other values of the benchmark's result, by name."""
