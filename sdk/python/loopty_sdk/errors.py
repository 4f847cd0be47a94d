"""The error that reports a failure of the candidate."""

from __future__ import annotations


class CandidateError(Exception):
    """The candidate gave no answer; the message is one line.

    `kind` says why: it `raised` an exception, `crashed`, exceeded its limit of `time`, `memory`, `output` or
    `disk`, sent `garbage`, or was `refused` because it could not be asked at all. One kind is about answers that
    did come: `wrong`, where a check found one.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


CandidateError.__module__ = "loopty_sdk"  # so that tracebacks show the name that users import
