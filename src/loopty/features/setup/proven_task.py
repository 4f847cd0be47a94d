"""A task after its checks: what the first result and its noise say, and the most promising of what failed."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from loopty.domain.objective import NUMBER, SCORE, Direction, Metric, direction_of, says_speed
from loopty.domain.trial import Ending, Outcome
from loopty.evaluators.formats.units import measured
from loopty.features.setup.causes.results import WALL_SECONDS, printed_result, without_timer
from loopty.features.setup.counted_rows import with_own_rows
from loopty.features.setup.task_draft import GateDraft, TaskDraft
from loopty.features.setup.training import metric_of
from loopty.kit.records import Record, replace

if TYPE_CHECKING:
    from loopty.features.setup.sensitivity import Sensitivity
    from loopty.session.by_hand import CheckResult


class Usage(Record):
    """What runs used."""

    cpu_seconds: float
    memory_mb: int
    waited_seconds: float = 0.0
    """How long their threads could have run, and waited for a CPU."""

    @property
    def busy_seconds(self) -> float:
        """Return the CPU seconds that they would use if no one else used the machine in the same time."""
        return self.cpu_seconds + self.waited_seconds

    @property
    def waited_share(self) -> float:
        """Return the share of that in which they waited."""
        return self.waited_seconds / max(self.busy_seconds, 0.001)


class MeasuredNoise(Record):
    """How much the score varied over a few checked runs."""

    metric: str
    values: tuple[float, ...]
    seconds: tuple[float, ...] = ()
    """How long each of the runs took."""
    usage: Usage = Usage(0.0, 0)
    """What the runs after the first used together."""

    @property
    def percent(self) -> float:
        """Compute the standard deviation in percent of the mean; 0 if every run gave the same."""
        mean = statistics.fmean(self.values)
        spread = statistics.stdev(self.values)
        return 100 * spread / abs(mean) if mean else 0.0


_DIRECTION = "direction"
_LONG_SECONDS = 30.0
_TIMES_THE_BENCHMARK = 5.0


class TaskChange(Record):
    """Something that `init` changed in the draft, with the reason."""

    line: str
    why: str


def refusing_gate(draft: TaskDraft, check: CheckResult) -> GateDraft | None:
    """Find the gate of the draft that ended the check, or None."""
    problem = check.problem or ""
    return next((gate for gate in draft.gates if problem.startswith(f"gate {gate.name}: ")), None)


def with_less_gate(draft: TaskDraft, name: str, check: CheckResult) -> tuple[TaskDraft, TaskChange]:
    """Return the draft with a smaller gate instead of one that the files as they are fail, or with none."""
    gate = _gate(draft, name)
    cause = check.explanation.cause if check.explanation else None
    reason = cause.sentence if cause else str(check.problem)
    why = f"{gate.command} does not pass on the files as they are ({reason})"
    if gate.smaller:
        return _with_smaller(draft, gate, f"{why}, and these are some of the tests")
    why = f"{why}, so it is no gate yet"
    return draft.without_gate(gate.name, why), TaskChange(f"no gate {gate.name}", why)


def with_shorter_gate(
    draft: TaskDraft, gate_seconds: float, benchmark_seconds: float
) -> tuple[TaskDraft, TaskChange] | None:
    """Return the draft with fewer tests as the gate if all take far longer than the benchmark; None else."""
    gate = next((gate for gate in draft.gates if gate.is_proposed and gate.smaller), None)
    if gate is None or gate_seconds < max(_LONG_SECONDS, _TIMES_THE_BENCHMARK * benchmark_seconds):
        return None
    why = (
        f"{gate.command} takes about {gate_seconds:.0f} s and the benchmark {benchmark_seconds:.2g} s: only some "
        "of the tests are the gate, so run all of them on what you accept"
    )
    return _with_smaller(draft, gate, why)


def _with_smaller(draft: TaskDraft, gate: GateDraft, why: str) -> tuple[TaskDraft, TaskChange]:
    command, *rest = gate.smaller
    smaller = replace(gate, command=command, smaller=tuple(rest))
    gates = tuple(smaller if one.name == gate.name else one for one in draft.gates)
    changed = replace(draft, gates=gates).with_note(f"gates.{gate.name}", why)
    return changed, TaskChange(f"the gate {command}", why)


def _gate(draft: TaskDraft, name: str) -> GateDraft:
    (gate,) = (gate for gate in draft.gates if gate.name == name)
    return gate


COMBINED = ("combined_score", "metrics.combined_score")
_WAITING = 0.1
"""A command that computes for less than this share of its time waits: then the time on the clock counts."""
_SHORTEST_TIMEOUT = 10
_TIMES_THE_RUN = 10
_UNIT = r"[^\W\d_]{1,16}(?:[ \t]?(?:/|per\b)[ \t]?[^\W\d_]{1,16})?"


def with_direction(draft: TaskDraft, outcome: Outcome, output: str = "") -> TaskDraft:
    """Return the draft with the direction that the benchmark, or its score's name or unit, says.

    `output` is what the benchmark printed. Where nothing says it, there is no note about the direction.
    """
    reported = outcome.directions.get(next(iter(outcome.metrics)))
    if reported:
        return replace(draft, direction=str(reported)).with_note("direction", "the benchmark says so")
    if draft.metrics or draft.result not in ("file", "stdout") or "direction" in draft.notes:
        return draft
    if draft.is_cpu_time or draft.score_key == WALL_SECONDS:
        return replace(draft, direction="min").with_note("direction", "it is what the command takes")
    name = score_name(draft, outcome)
    if SCORE not in outcome.metrics:
        return _with_columns(draft, outcome)
    if (unit := _unit(draft, output)) and (found := _direction_of_unit(unit)):
        return replace(draft, direction=str(found)).with_note("direction", f"its unit is {unit}")
    found = direction_of(name)
    if found is None or (name == SCORE and draft.direction == "min"):  # as its tool has it
        return draft
    why = f"the name {name.rpartition('.')[2]} says so"
    return replace(draft, direction=str(found)).with_note("direction", why)


def score_name(draft: TaskDraft, outcome: Outcome) -> str:
    """Return what the benchmark calls the number that is the score; empty if it has no name."""
    metrics = outcome.metrics
    if draft.score_key or draft.metrics:
        return draft.score_key or draft.metrics[0].name
    if SCORE not in metrics:
        return next(iter(metrics))
    return next((name for name in COMBINED if metrics.get(name) == metrics[SCORE]), SCORE)


def _with_columns(draft: TaskDraft, outcome: Outcome) -> TaskDraft:
    """Say that lower is better for a CSV's metrics whose names say so, and whose header does not."""
    metrics = tuple(
        Metric(name, outcome.directions.get(name) or direction_of(name) or Direction.MAX)
        for name in outcome.metrics
    )
    first = metrics[0].name
    draft = replace(draft, metrics=metrics) if any(one.direction is Direction.MIN for one in metrics) else draft
    draft = replace(draft, direction=str(metrics[0].direction))
    return draft.with_note("direction", f"the name {first} says so") if direction_of(first) else draft


def _unit(draft: TaskDraft, output: str) -> str:
    """Find the unit after the printed score, as in `0.42 s`; empty without one."""
    if draft.result != "stdout":
        return ""
    last = output.rstrip().rpartition("\n")[2]
    name = rf"^\W*{re.escape(draft.score_key)}\s*[:=]\s*" if draft.score_key else r"(?<![\w.])"
    found = re.findall(rf"{name}{NUMBER}[ \t]*({_UNIT})\W*$", output if draft.score_key else last, re.MULTILINE)
    return found[-1] if found else ""


def _direction_of_unit(unit: str) -> Direction | None:
    known = measured("1", unit) if unit else None
    return known.direction if known else direction_of(unit)


def with_timeout(draft: TaskDraft, seconds: float) -> TaskDraft:
    """Return the draft with a limit of ten times the checked run."""
    limit = max(_TIMES_THE_RUN * seconds, _SHORTEST_TIMEOUT)
    rounded = float(int(limit) + 1) if limit > _SHORTEST_TIMEOUT else float(limit)
    why = f"about ten times the checked run, which took {seconds:.2g} s"
    return replace(draft, timeout_seconds=rounded).with_note("timeout_seconds", why)


def with_better_score(draft: TaskDraft, outcome: Outcome, output: str = "") -> TaskDraft:
    """Return the draft with a number as the score that says more than the benchmark's own, if there is one.

    `output` is what the benchmark printed.
    """
    if draft.score_key or draft.metrics:
        return draft
    if draft.is_cpu_time and draft.is_timed_program and (result := printed_result(output)):
        why = "the program prints what it measured, which says more than the CPU time that it takes"
        return replace(draft, command=without_timer(draft.command), result=result).with_note("result", why)
    metrics = outcome.metrics
    wall = metrics.get(WALL_SECONDS)
    if wall is not None and metrics.get(SCORE, wall) < _WAITING * wall:
        why = "the command waits most of the time, so its CPU time says little"
        return replace(draft, score_key=WALL_SECONDS).with_note("score_key", why)
    if draft.trains:
        name = metric_of([name for name in metrics if name != SCORE])
        why = "a training aims at its metric, not at the time that it takes"
        return replace(draft, score_key=name).with_note("score_key", why) if name else draft
    return with_own_rows(draft, metrics)


class CountProof(Record):
    """What was found out about counting instructions in place of the clock."""

    refusal: str = ""
    """Why instructions do not stand for time here; empty if they may."""
    counts: tuple[float, ...] = ()
    seconds: float = 0.0
    """What a counted run takes."""
    start: float = 0.0
    """How many of the instructions are Python's start; 0 where that is not known."""
    is_better: bool = False
    """Whether the clock is so noisy, and counting so cheap, that the task should count."""


class ProvenTask(Record):
    """The draft after its checks, and what the last check gave."""

    draft: TaskDraft
    check: CheckResult
    changes: tuple[TaskChange, ...]
    noise: MeasuredNoise | None
    """None where the check failed, or where one run takes too long to repeat it."""
    gate_seconds: float = 0.0
    """How long the gates take."""
    instead_of: ProvenTask | None = None
    """The most promising of what failed before it; None where the first worked, and for a failure."""
    sensitivity: Sensitivity | None = None
    """What planted changes did to the score; None where none were planted."""
    is_too_long: bool = False
    """Whether it works, and a run takes too long to prove it in the time that there is."""
    count: CountProof | None = None
    """What counting instructions showed; None where the score is no time, or was not repeated."""

    @property
    def problem(self) -> str:
        """Say why the task is of no use: the check failed, or the score is not about the code; empty if it is."""
        return self.check.problem or (self.sensitivity.problem if self.sensitivity else "")

    @property
    def is_speed(self) -> bool:
        """Say whether the score is a time or a rate."""
        draft = self.draft
        if draft.is_cpu_time or draft.score_key == WALL_SECONDS or draft.result not in ("file", "stdout"):
            return True
        return says_speed(score_name(draft, self.check.outcome)) or "its unit is" in draft.notes.get(
            _DIRECTION, ""
        )

    @property
    def direction(self) -> str:
        """Return which values of the score are better."""
        return str(self.draft.metrics[0].direction) if self.draft.metrics else self.draft.direction

    @property
    def why_direction(self) -> str:
        """Say why these values are better; empty if that is assumed."""
        draft = self.draft
        if why := draft.notes.get("direction"):
            return why
        if self.check.outcome.directions or draft.result not in ("file", "stdout"):
            return "the benchmark says so"
        name = score_name(draft, self.check.outcome)
        return f"the name {name.rpartition('.')[2]} says so" if direction_of(name) == self.direction else ""

    @property
    def score(self) -> tuple[str, float]:
        """Return what the benchmark calls its score, and its value."""
        metrics = self.check.outcome.metrics
        key = self.draft.metrics[0].name if self.draft.metrics else next(iter(metrics))
        name = score_name(self.draft, self.check.outcome)
        is_cpu = self.draft.is_cpu_time and name == SCORE
        return f"CPU seconds of {self._timed}" if is_cpu else name.removeprefix("metrics."), metrics[key]

    @property
    def _timed(self) -> str:
        if self.draft.is_without_start:
            return "the tests without their start"
        return "the tests" if self.draft.times_the_tests else "the command"

    @property
    def other_numbers(self) -> tuple[str, ...]:
        """List the names of the numbers that the benchmark reported beside its score."""
        name, value = self.score
        metrics = self.check.outcome.metrics
        same = {SCORE, name, f"metrics.{name}", self.draft.score_key}
        rest = [one for one in metrics if one not in same and not (one in COMBINED and metrics[one] == value)]
        return tuple(one.removeprefix("metrics.") for one in rest)

    @property
    def has_line(self) -> bool:
        """Say whether the message about a failure has a line to paste."""
        cause = self.check.explanation.cause if self.check.explanation else None
        return cause is not None and bool(cause.shell or cause.settings)

    @property
    def is_out_of_time(self) -> bool:
        return self.is_too_long or self.check.outcome.ending is Ending.TIMED_OUT


def most_promising(failed: Sequence[ProvenTask]) -> ProvenTask | None:
    """Choose the failure that has a line to paste, or the first; None of none.

    A line that gives more time comes after one that names what is missing.
    """
    return min(failed, key=lambda proven: (not proven.has_line, proven.is_out_of_time), default=None)
