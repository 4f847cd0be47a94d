"""What the first result of a benchmark says about the task: direction, time limit, and what the score is."""

from __future__ import annotations

from loopty.causes.absent_results import WALL_SECONDS
from loopty.domain.objective import SCORE
from loopty.domain.outcome import Outcome
from loopty.kit.dataclass import replace
from loopty.taskfile.task_draft import TaskDraft

_WAITING = 0.1
"""A command that computes for less than this share of its time waits: then the time on the clock counts."""
_SHORTEST_TIMEOUT = 10
_TIMES_THE_RUN = 10
_WITH_RIVALS, _MEAN = "benchmark-js", ".mean"
"""Suites that often measure other packages beside the repository's own, and what each benchmark reports."""


def with_direction(draft: TaskDraft, outcome: Outcome) -> TaskDraft:
    """The draft with the direction that the benchmark itself names."""
    reported = outcome.directions.get(next(iter(outcome.metrics)))
    if not reported or draft.direction == reported:
        return draft
    return replace(draft, direction=str(reported)).with_note("direction", "the benchmark says so")


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
