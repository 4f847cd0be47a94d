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

_STOPS = {
    "memory": "used too much memory",
    "output": "printed too much",
    "disk": "wrote too much to disk",
    "time": "ran out of time",
}


def limit_text(stop: str) -> str:
    """What a candidate did that a limit has ended."""
    return _STOPS.get(stop, "was stopped")


def no_cpu_time(name: str) -> str:
    """The message where the CPU time of a candidate is wanted but was not measured."""
    return f"the CPU time of {name} is not measured here: use its seconds"
