"""A draft with the remedy of a failed check, as far as the user lets it be applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from loopty.campaign.gate_changes import TaskChange
from loopty.causes.cause import Cause, Reach, Setting
from loopty.kit.records import replace
from loopty.taskfile.task_draft import TaskDraft

if TYPE_CHECKING:
    from loopty.campaign.by_hand import CheckResult

Consent = Callable[[Cause], bool]
"""Asks the user whether a remedy may be applied."""

OUT_OF_TIME = "out-of-time"
"""A cause without a remedy here: more time is the user's to give."""


def draft_with_remedy(
    draft: TaskDraft, check: CheckResult, fixed: frozenset[str], consent: Consent
) -> tuple[TaskDraft, TaskChange] | None:
    """The draft with the remedy of a failed check, or None where there is none to apply."""
    cause = check.explanation.cause if check.explanation else None
    settings = [item for item in cause.settings if item.key not in fixed or item.key == "command"] if cause else []
    if not (cause and settings) or cause.name == OUT_OF_TIME or not _is_allowed(cause, consent):
        return None
    changed = draft
    for setting in settings:
        changed = changed.with_setting(setting, cause.sentence)
    has_progress = replace(changed, notes=draft.notes) != draft
    if not has_progress or _has_tried(draft, settings):
        return None
    return changed, TaskChange("; ".join(item.line for item in settings), cause.sentence)


def _is_allowed(cause: Cause, consent: Consent) -> bool:
    return (cause.reach is Reach.REPOSITORY and not cause.is_guess) or consent(cause)


def _has_tried(draft: TaskDraft, settings: list[Setting]) -> bool:
    """Whether the same words were put before the command already: then they do not help."""
    before = {"command": draft.command, **{f"gates.{gate.name}": gate.command for gate in draft.gates}}
    for setting in settings:
        table = setting.table if setting.table.startswith("gates.") else setting.key
        if setting.key == "command" and (old := before.get(table)):
            added = str(setting.value).removesuffix(old)
            if added and added in old:
                return True
    return False
