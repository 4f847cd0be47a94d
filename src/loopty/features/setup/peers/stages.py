"""Cheap stages of other tools: only those that the program as it is passes."""

from __future__ import annotations

from collections.abc import Callable

from loopty.features.setup.task_draft import StageDraft, TaskDraft
from loopty.kit.records import replace
from loopty.session.by_hand import CheckResult


def with_reached_stages(draft: TaskDraft, run: Callable[[TaskDraft], CheckResult]) -> TaskDraft:
    """Return the draft without stages that the program itself misses: they would reject what is better, too.

    Other tools rank what misses a stage by that stage's score, which is comparable with no other.
    """
    kept: list[StageDraft] = []
    for stage in draft.stages:
        result = run(replace(draft, command=stage.command, stages=(), gates=()))
        value = next(iter(result.outcome.metrics.values()), None)
        if result.problem is None and value is not None and value >= stage.minimum:
            kept.append(stage)
            continue
        reached = f"reaches {value:.4g}" if value is not None else "has no score there"
        why = f"{stage.name} would need {stage.minimum:g}, and the program as it is {reached}: left out"
        draft = draft.with_note("stages", why)
    return replace(draft, stages=tuple(kept))
