"""What the first result of a benchmark says about the task: direction, time limit, and what the score is."""

from __future__ import annotations

import re

from loopty.causes.absent_results import WALL_SECONDS
from loopty.domain.objective import SCORE, Direction, Metric
from loopty.domain.outcome import Outcome
from loopty.domain.score_names import direction_of
from loopty.kit.printed_numbers import NUMBER
from loopty.kit.records import replace
from loopty.taskfile.task_draft import TaskDraft

COMBINED = ("combined_score", "metrics.combined_score")
_WAITING = 0.1
"""A command that computes for less than this share of its time waits: then the time on the clock counts."""
_SHORTEST_TIMEOUT = 10
_TIMES_THE_RUN = 10
_WITH_RIVALS, _MEAN = "benchmark-js", ".mean"
"""Suites that often measure other packages beside the repository's own, and what each benchmark reports."""


def with_direction(draft: TaskDraft, outcome: Outcome, output: str = "") -> TaskDraft:
    """The draft with the direction that the benchmark names, or that the name or the unit of its score says.

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
    if (unit := _unit(draft, output)) and (found := direction_of(unit)):
        return replace(draft, direction=str(found)).with_note("direction", f"its unit is {unit}")
    found = direction_of(name)
    if found is None or (name == SCORE and draft.direction == "min"):  # as its tool has it
        return draft
    why = f"the name {name.rpartition('.')[2]} says so"
    return replace(draft, direction=str(found)).with_note("direction", why)


def score_name(draft: TaskDraft, outcome: Outcome) -> str:
    """What the benchmark calls the number that is the score; empty where it has no name."""
    metrics = outcome.metrics
    if draft.score_key or draft.metrics:
        return draft.score_key or draft.metrics[0].name
    if SCORE not in metrics:
        return next(iter(metrics))
    return next((name for name in COMBINED if metrics.get(name) == metrics[SCORE]), SCORE)


def _with_columns(draft: TaskDraft, outcome: Outcome) -> TaskDraft:
    """The draft with the metrics of a CSV whose header does not say that lower is better, and whose names do."""
    metrics = tuple(
        Metric(name, outcome.directions.get(name) or direction_of(name) or Direction.MAX)
        for name in outcome.metrics
    )
    first = metrics[0].name
    draft = replace(draft, metrics=metrics) if any(one.direction is Direction.MIN for one in metrics) else draft
    draft = replace(draft, direction=str(metrics[0].direction))
    return draft.with_note("direction", f"the name {first} says so") if direction_of(first) else draft


def _unit(draft: TaskDraft, output: str) -> str:
    """The unit after the printed score, as in `0.42 s`; empty without one."""
    if draft.result != "stdout":
        return ""
    last = output.rstrip().rpartition("\n")[2]
    name = rf"^\W*{re.escape(draft.score_key)}\s*[:=]\s*" if draft.score_key else r"(?<![\w.])"
    found = re.findall(
        rf"{name}{NUMBER}[ \t]*([A-Za-z/]{{1,8}})\W*$", output if draft.score_key else last, re.MULTILINE
    )
    return found[-1] if found else ""


def with_timeout(draft: TaskDraft, seconds: float) -> TaskDraft:
    """The draft with a limit of ten times the checked run."""
    limit = max(_TIMES_THE_RUN * seconds, _SHORTEST_TIMEOUT)
    rounded = float(int(limit) + 1) if limit > _SHORTEST_TIMEOUT else float(limit)
    why = f"about ten times the checked run, which took {seconds:.2g} s"
    return replace(draft, timeout_seconds=rounded).with_note("timeout_seconds", why)


def with_better_score(draft: TaskDraft, outcome: Outcome, patience: float = 1.0) -> TaskDraft:
    """The draft with a number as the score that says more than the benchmark's own, where there is one.

    `patience` is how many times longer than on an idle machine a run takes: that long it waits for a core alone.
    """
    if draft.score_key or draft.metrics:
        return draft
    metrics = outcome.metrics
    wall = metrics.get(WALL_SECONDS)
    if wall is not None and patience * metrics.get(SCORE, wall) < _WAITING * wall:
        why = "the command waits most of the time, so its CPU time says little"
        return replace(draft, score_key=WALL_SECONDS).with_note("score_key", why)
    names = [name.removesuffix(_MEAN) for name in metrics if name.endswith(_MEAN)]
    own = [name for name in names if draft.package and draft.package.lower() in name.lower()]
    if draft.result == _WITH_RIVALS and len(own) == 1 and len(names) > 1:
        why = "the others are rivals, which no proposal can make faster"
        return replace(draft, score_key=f"{own[0]}{_MEAN}").with_note("score_key", why)
    return draft
