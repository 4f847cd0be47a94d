"""What the benchmark gives its candidates to do, as one digest.

A candidate that is timed again on the same inputs could remember their answers: the machine keeps files in memory
from trial to trial. So loopty hears this digest where the benchmark looks at the time.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_LENGTH_BYTES = 8
_DIGEST_BYTES = 16


class _Asked:
    def __init__(self, tell: Callable[[str], None]) -> None:
        from _blake2 import blake2b  # hashlib takes ten times as long to import

        self._tell = tell
        self.digest = blake2b(digest_size=_DIGEST_BYTES)
        self.is_timed = False

    def tell(self) -> None:
        self._tell(self.digest.hexdigest())


_asked: _Asked | None = None


def begin(tell: Callable[[str], None]) -> None:
    """Begin the digest: loopty runs the candidates. `tell` gets it if the benchmark looks at their time."""
    global _asked
    if _asked is None:
        _asked = _Asked(tell)


def note_inputs(inputs: Iterable[bytes]) -> None:
    """Add to the digest what a candidate is asked next."""
    if (asked := _asked) is not None:
        for content in inputs:
            asked.digest.update(len(content).to_bytes(_LENGTH_BYTES, "little"))
            asked.digest.update(content)


def note_time() -> None:
    """Note that the benchmark looks at a candidate's time: loopty hears of it when the benchmark ends."""
    if (asked := _asked) is not None and not asked.is_timed:
        import atexit

        asked.is_timed = True
        atexit.register(asked.tell)
