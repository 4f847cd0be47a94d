"""The kernel kills trials first when memory is short."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

_OOM_SCORE = Path("/proc/self/oom_score_adj")
_TRIAL_OOM_SCORE = "500"


@contextlib.contextmanager
def high_oom_score() -> Iterator[None]:
    """Processes started in this context inherit a high out-of-memory score: the kernel kills them first."""
    # We change our own score: every process may raise it and lower it again to its former value, while the score
    # of a process in another user namespace may be out of reach.
    before = _OOM_SCORE.read_text(encoding="ascii")
    if int(before) >= int(_TRIAL_OOM_SCORE):
        yield
        return
    _OOM_SCORE.write_text(_TRIAL_OOM_SCORE, encoding="ascii")
    try:
        yield
    finally:
        _OOM_SCORE.write_text(before, encoding="ascii")
