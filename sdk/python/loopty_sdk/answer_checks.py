"""Check answers of the measured run against a reference, after the timing, at calls that nobody can foresee."""

from __future__ import annotations

import os

from . import values
from .errors import CandidateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_LARGEST_BACKLOG = 64 << 20
_RANDOM_BYTES = 4


class AnswerChecks:
    """Keeps a random sample of the calls, at least one of them, and compares their answers later.

    The sample is drawn after the answer and from the system's randomness, so that a candidate cannot tell which
    of its answers will be checked.
    """

    def __init__(self, target: str, reference: Callable[..., Any], sample: float, tolerance: float) -> None:
        if not 0.0 < sample <= 1.0:
            raise ValueError(f"sample is {sample!r}: it is the share of the calls to check, above 0 and up to 1")
        self._target = target
        self._reference = reference
        self._sample = sample
        self._tolerance = tolerance
        self._calls = 0
        self._chosen: list[tuple[bytes, bytes]] = []
        self._backlog = 0
        self._any: tuple[bytes, bytes] | None = None
        """One of all calls, each equally likely: checked where the sample is empty."""
        self.checked = 0
        """How many answers were compared so far."""

    def note(self, question: bytes, answer: bytes) -> None:
        """Note a call and its answer, as bytes: what the benchmark changes later is not compared."""
        self._calls += 1
        if _chance() * self._calls < 1.0:
            self._any = (question, answer)
        if _chance() < self._sample:
            self._chosen.append((question, answer))
            self._backlog += len(question) + len(answer)
        if self._backlog > _LARGEST_BACKLOG:
            self._compare_chosen()

    def finish(self) -> None:
        """Compare what is left. Raises CandidateError for an answer that differs from the reference's."""
        if not self._chosen and not self.checked and self._any is not None:
            self._chosen = [self._any]
        self._any = None
        self._compare_chosen()

    def _compare_chosen(self) -> None:
        from .equality import are_equal, short_repr

        chosen, self._chosen, self._backlog = self._chosen, [], 0
        for question, answer in chosen:
            self.checked += 1
            args, named = values.decode(question)
            expected = self._reference(*args, **named)
            args, named = values.decode(question)  # the reference may have changed its arguments
            value = values.decode(answer)
            if not are_equal(value, expected, self._tolerance):
                shown = short_repr((*args, named) if named else args)
                difference = f"returned {short_repr(value)} instead of {short_repr(expected)} for {shown}"
                raise CandidateError("wrong", f"{self._target} {difference}, in the measured run")


def _chance() -> float:
    """A number from 0 up to 1 that no candidate can foresee."""
    return int.from_bytes(os.urandom(_RANDOM_BYTES), "big") / (1 << 8 * _RANDOM_BYTES)
