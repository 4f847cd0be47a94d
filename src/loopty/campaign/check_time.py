"""The time that `init` has for all its checks, and how much of it the next one may take."""

from __future__ import annotations

import time
from collections.abc import Callable

from loopty.taskfile.task_draft import TaskDraft

WITHIN_SECONDS = 600.0
_MOST_PATIENCE = 2.0
_SHARE = 0.5
"""Of what is left, for the next check: the half that stays is for what is tried after it."""
_RESERVE_OF_PARTS = 0.2
"""Of all the time, kept for a part of the tests."""
_LEAST_SECONDS = 15.0
"""Nothing is tried for less."""


def usual_seconds(patience: float) -> float:
    """The time where the user gave none: on a machine that others keep busy, up to twice as long."""
    return WITHIN_SECONDS * min(max(patience, 1.0), _MOST_PATIENCE)


class CheckTime:
    """Shares the time out among the checks: what takes too long leaves enough for something smaller."""

    def __init__(self, seconds: float = WITHIN_SECONDS, now: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._now = now
        self._ends_at = now() + seconds
        self._has_parts = False

    def expect(self, has_parts: bool) -> None:
        """Keep some of the time for parts of the tests, where there are some."""
        self._has_parts = has_parts

    @property
    def left(self) -> float:
        return max(self._ends_at - self._now(), 0.0)

    def has_time_for(self, draft: TaskDraft) -> bool:
        return self._open_to(draft) >= min(_LEAST_SECONDS, self.seconds / 2)

    def limit(self, draft: TaskDraft, at_least: float = 0.0) -> float:
        """Seconds that the next check of the draft may take; `at_least` is what it is known to need."""
        free = self._open_to(draft)
        return max(min(max(_SHARE * free, at_least), free), min(_LEAST_SECONDS, self.seconds / 2))

    def _open_to(self, draft: TaskDraft) -> float:
        """The time that this draft and what comes after it may take."""
        reserve = _RESERVE_OF_PARTS if self._has_parts and not draft.is_part else 0.0
        return self.left - self.seconds * reserve
