"""Causes: a Makefile that names too little of what its rules need, so that compilers at the same time fail."""

from __future__ import annotations

import re

from loopty.causes.cause import Cause
from loopty.causes.failure import Failure
from loopty.causes.host_facts import HostFacts
from loopty.causes.system_packages import is_known_library

_PARALLEL = re.compile(r"\b(make(?: -C \S+)?) -j ?\d+")
_NOT_YET_BUILT = (
    r"cannot find -l\S+",
    r"No such file or directory",
    r"No rule to make target",
    r"undefined reference to ",
    r"file (?:not recognized|format not recognized|truncated)",
    r"Text file busy",
    r"^(?:/bin/sh: \d+: |sh: )?\./\S+: not found$",
)
_HEADER = r"fatal error: (?P<name>[A-Za-z][\w+-]*)(?:/[\w./+-]*|\.h(?:pp)?): No such file"


def parallel_make(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Something that make builds a moment later: one step after the other, it is there in time."""
    if not (_PARALLEL.search(failure.command) and failure.match(*_NOT_YET_BUILT)):
        return None
    header = failure.match(_HEADER)
    if header and is_known_library(header["name"]):
        return None  # that no build of the repository makes
    return Cause(
        "parallel-make",
        f"{failure.subject} builds several things at once, and one of them was needed before it was there",
        (failure.own_setting("command", _PARALLEL.sub(r"\1", failure.command)),),
    )
