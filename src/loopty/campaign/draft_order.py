"""Which draft of a task is tried next, after what became of the one before."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.campaign.proven_task import ProvenTask
from loopty.kit.records import replace
from loopty.taskfile.task_draft import TaskDraft

_MOST_DRAFTS = 6


class DraftQueue:
    """Drafts in the order in which they are tried: the most certain first."""

    def __init__(self, drafts: Sequence[TaskDraft]) -> None:
        self._drafts = list(drafts[:_MOST_DRAFTS])

    @property
    def has_parts(self) -> bool:
        """Whether some of the tests can be run alone, without a build."""
        return any(draft.is_part and not draft.has_build for draft in self._drafts)

    def next(self, failed: ProvenTask | None) -> TaskDraft | None:
        """The next draft, or None; `failed` is the last that did not work."""
        if failed and failed.is_out_of_time:
            self._prefer_parts(failed.draft)
        if not self._drafts:
            return None
        draft = self._drafts.pop(0)
        return _with_what_others_needed(draft, failed.draft) if failed else draft

    def _prefer_parts(self, slow: TaskDraft) -> None:
        """Go on with what builds or tests less: another way to build all of it takes as long."""
        if slow.has_build:
            self._drafts = [draft for draft in self._drafts if draft.is_part or not draft.has_build]
        self._drafts.sort(key=lambda draft: not draft.is_part)


def _with_what_others_needed(draft: TaskDraft, failed: TaskDraft) -> TaskDraft:
    if failed.writable_copy:
        draft = replace(draft, writable_copy=True)  # what the tests needed for the one, they need for all
    if not failed.gates:
        # What did not pass on these files for the one will not for the others.
        draft = replace(draft, gates=tuple(gate for gate in draft.gates if not gate.is_proposed))
    return draft
