"""Whether a command that ended well ran any test, or compiled anything, by what it printed."""

from __future__ import annotations

import re

_COUNTS = (
    r"^Ran (\d+) tests? in ",  # unittest
    r"^running (\d+) tests?$",  # cargo
    r"^# TOTAL: +(\d+)$",  # automake
    r"^\s*(\d+) passing\b",  # mocha
    r"^[#ℹ] tests (\d+)$",  # tape and node:test
    r"^1\.\.(\d+)$",  # TAP
)
_NONE = (
    r"^\?\s+\S+\s+\[no test files\]$|\[no tests to run\]$",  # go
    r"^make(?:\[\d+\])?: Nothing to be done for '(?:test|tests|check)'\.$",
    r"^make: '(?:test|tests|check)' is up to date\.$",  # there is a folder of that name, and no .PHONY
    r"^Files=0, Tests=0\b",  # prove
)
_SOME = r"^ok\s+\S+\s+[\d.]+s$|^(?:PASS|ok \d+|All tests successful)\b"
"""What go, automake, TAP and prove print for tests that ran."""


def has_run_no_tests(output: str) -> bool:
    """Whether the output names the number of tests, and it is 0; False where it says nothing about that."""
    counts = [int(number) for pattern in _COUNTS for number in re.findall(pattern, output, re.MULTILINE)]
    says_none = any(re.search(pattern, output, re.MULTILINE) for pattern in _NONE)
    has_some = any(counts) or re.search(_SOME, output, re.MULTILINE) is not None
    return (bool(counts) or says_none) and not has_some


def has_built_nothing(command: str, output: str) -> bool:
    """Whether a build by make or CMake found nothing to compile; False for others, which say nothing about it."""
    if "cmake --build" in command:
        return re.search(r"^\[[ \d%/]+\] (?:Building|Linking) ", output, re.MULTILINE) is None
    return re.search(r"^make(?:\[\d+\])?: Nothing to be done for '[^']*'\.$", output, re.MULTILINE) is not None
