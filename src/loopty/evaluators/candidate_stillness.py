"""Between calls nothing of the candidate runs: it is frozen after its answer, and thawed for the next call.

Otherwise its processes could slow the benchmark down while that measures something else, such as a reference.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno

from msgspec import Struct

from loopty.domain.launch import Freezer

_GONE = (errno.ENOENT, errno.ENODEV)
"""The group of the processes was removed, because they are dead."""


class CandidateConduct(Struct):
    """What loopty knows of the candidates of one command."""

    outside_cpu_seconds: float = 0.0
    """The CPU that they used after an answer and before the next call."""
    is_frozen: bool = True
    """Whether they could always be stopped."""
    timed_inputs: str = ""
    """A digest of what they were asked, where the benchmark looked at their time."""


class CandidateStillness:
    """Freezes and thaws the processes of one candidate, and charges what they use in between."""

    def __init__(self, conduct: CandidateConduct) -> None:
        self._conduct = conduct
        self._freezer: Freezer | None = None
        self._cpu_at_answer: float | None = None
        self._cpu_seconds: float | None = None

    def take_freezer(self, freezer: Freezer) -> None:
        """Take what can stop the processes, from the sandbox that starts them."""
        self._freezer = freezer

    async def set(self, frozen: bool) -> bool:
        """Freeze or thaw; False where that cannot be done."""
        # Processes continue at once, while it may take time until all of them have stopped.
        return await asyncio.to_thread(self._set, frozen) if frozen else self._set(frozen)

    def _set(self, frozen: bool) -> bool:
        if self._freezer is None:
            self._conduct.is_frozen = False
            return False
        try:
            self.charge()
            if frozen:
                self._cpu_at_answer = self._cpu_seconds = self._freezer.cpu_seconds()
                self._freezer.freeze()
            else:
                self._freezer.thaw()
        except OSError as error:
            if error.errno in _GONE:
                return True
            self._conduct.is_frozen = False
            return False
        return True

    def charge(self) -> None:
        """Charge what was used since the last answer."""
        if self._freezer is None or self._cpu_at_answer is None:
            return
        self._cpu_seconds = self._freezer.cpu_seconds()
        used, self._cpu_at_answer = self._cpu_seconds - self._cpu_at_answer, None
        self._conduct.outside_cpu_seconds += max(used, 0.0)

    def cpu_seconds(self) -> float | None:
        """Return the CPU time of all of them at the last answer or question; None if nothing measures it.

        A candidate could hide work in processes that end, so it is not measured where those are not counted.
        """
        return self._cpu_seconds if self._freezer and self._freezer.counts_ended else None

    def cpu_seconds_at_end(self) -> float | None:
        """Return the CPU time of all of them, once they are dead; None if nothing measures it."""
        with contextlib.suppress(OSError):
            if self._freezer and self._freezer.counts_ended:
                return self._freezer.cpu_seconds()
        return None
