"""The time that `init` has for all its checks, and how much of it the next one may take."""

from __future__ import annotations

import time
from collections.abc import Callable

from loopty.taskfile.task_draft import TaskDraft

WITHIN_SECONDS = 600.0
_SHARE = 0.5
"""Of what is left, for the next check: the half that stays is for what is tried after it."""
_SHARE_OF_RESORT = 0.7
_RESERVE = 0.2
"""Of all the time, kept for the last resorts."""
_LEAST_SECONDS = 15.0
"""Nothing is tried for less."""


class CheckTime:
    """Shares the time out among the checks: what takes too long leaves enough for something smaller."""

    def __init__(self, seconds: float = WITHIN_SECONDS, now: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._now = now
        self._ends_at = now() + seconds
        self._has_resorts = False

    def expect(self, has_resorts: bool) -> None:
        """Keep a part of the time for last resorts, where there are some."""
        self._has_resorts = has_resorts

    @property
    def left(self) -> float:
        return max(self._ends_at - self._now(), 0.0)

    def has_time_for(self, draft: TaskDraft) -> bool:
        return self._open_to(draft) >= min(_LEAST_SECONDS, self.seconds / 2)

    def limit(self, draft: TaskDraft, at_least: float = 0.0) -> float:
        """Seconds that the next check of the draft may take; `at_least` is what it is known to need."""
        free = self._open_to(draft)
        share = (_SHARE_OF_RESORT if draft.last_resort else _SHARE) * free
        return max(min(max(share, at_least), free), min(_LEAST_SECONDS, self.seconds / 2))

    def _open_to(self, draft: TaskDraft) -> float:
        """The time that this draft and what comes after it may take."""
        reserve = _RESERVE * self.seconds if self._has_resorts and not draft.last_resort else 0.0
        return self.left - reserve
