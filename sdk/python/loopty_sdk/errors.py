"""What a candidate can do wrong."""

from __future__ import annotations


class CandidateError(Exception):
    """The candidate did not give an answer; the message is one line.

    `kind` tells how: it `raised` an exception, `crashed`, ran out of `time`, `memory`, `output` or `disk`, sent
    `garbage`, or was `refused` because it could not be asked at all.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


CandidateError.__module__ = "loopty_sdk"  # the last line of a traceback then names what can be imported
