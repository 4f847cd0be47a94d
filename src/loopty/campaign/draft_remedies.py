"""A draft with the remedy of a failed check, as far as the user lets it be applied."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from loopty.campaign.gate_changes import TaskChange
from loopty.causes.cause import Cause, Reach, Setting
from loopty.kit.dataclass import replace
from loopty.taskfile.task_draft import TaskDraft

if TYPE_CHECKING:
    from loopty.campaign.by_hand import CheckResult

Consent = Callable[[Cause], bool]
"""Asks the user whether a remedy may be applied."""

OUT_OF_TIME = "out-of-time"
"""A cause without a remedy here: more time is the user's to give."""
_LOWER_IS_BETTER = re.compile(r"time|second|latency|elapsed|duration|loss|error|\b[mun]?s\b|cost", re.IGNORECASE)


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
    if "direction" not in fixed and _is_time(check, settings):
        changed = replace(changed, direction="min")
        changed = changed.with_note("direction", "what is printed looks like a time or a cost")
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


def _is_time(check: CheckResult, settings: list[Setting]) -> bool:
    """Whether a score that is read from the output now looks like one that should be low."""
    if not any(item.key == "result" and item.value == "stdout" for item in settings):
        return False  # a tool says itself which of its numbers should be low
    lines = check.outcome.error_lines
    return bool(lines and _LOWER_IS_BETTER.search(lines[-1]))
