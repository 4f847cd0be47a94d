"""What the benchmark gives its candidates to do, as one digest.

A candidate that is timed again on the same inputs could remember their answers: the machine keeps files in memory
from trial to trial. So loopty hears this digest where the benchmark looks at the time.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_VARIABLE = "LOOPTY_CANDIDATE"
_LENGTH_BYTES = 8
_DIGEST_BYTES = 16


class _Asked:
    def __init__(self) -> None:
        from _blake2 import blake2b  # hashlib takes ten times as long to import

        self.digest = blake2b(digest_size=_DIGEST_BYTES)
        self.is_timed = False

    def tell(self) -> None:
        from .start_candidate import tell_timed

        tell_timed(self.digest.hexdigest())


_asked: _Asked | None = None


def note_inputs(inputs: Iterable[bytes]) -> None:
    """Add to the digest what a candidate is asked next."""
    if asked := _asked_so_far():
        for content in inputs:
            asked.digest.update(len(content).to_bytes(_LENGTH_BYTES, "little"))
            asked.digest.update(content)


def note_time() -> None:
    """Note that the benchmark looks at a candidate's time: loopty hears of it when the benchmark ends."""
    asked = _asked_so_far()
    if asked and not asked.is_timed:
        import atexit

        asked.is_timed = True
        atexit.register(asked.tell)


def _asked_so_far() -> _Asked | None:
    global _asked
    if _asked is None and _VARIABLE in os.environ:
        _asked = _Asked()
    return _asked
