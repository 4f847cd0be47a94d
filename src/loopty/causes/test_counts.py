"""Whether a command that ended well ran a test, compiled or measured anything, by what it printed."""

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

_EMPTY_CHECK = (
    r"^(?:make(?:\[\d+\])? +check-(?:am|recursive)|Making check in .*)\n"
    r"(?:(?:make\b|Making check in ).*(?:\n|\Z))*\Z"
)
"""The end of what automake prints for a check without tests: only make's own words."""
_CHECK_TARGET = r"\bcheck-(?!am\b|recursive\b)\w"
"""The targets check-TESTS and check-local, which only a project with tests has."""
_COMPILED = (
    r"^\s*(?:\S+/)?(?:[\w-]+-linux-gnu-)?(?:cc|gcc|g\+\+|c\+\+|clang|clang\+\+)(?:-\d+)? .*-[co]\b"
    r"|^libtool: (?:compile|link): |^\s+(?:CC|CXX|LD|CCLD|CXXLD|AR) +\S"
)
"""What make prints for a call of a compiler, in full or in short."""

_SHORTEST_BUILD = 0.1
"""CPU seconds: a compiler takes longer."""
_LONGEST_USAGE = 60


def has_run_no_tests(output: str) -> bool:
    """Whether the output names the number of tests, and it is 0; False where it says nothing about that."""
    counts = [int(number) for pattern in _COUNTS for number in re.findall(pattern, output, re.MULTILINE)]
    says_none = any(re.search(pattern, output, re.MULTILINE) for pattern in _NONE) or (
        re.search(_EMPTY_CHECK, output, re.MULTILINE) is not None and not re.search(_CHECK_TARGET, output)
    )
    has_some = any(counts) or re.search(_SOME, output, re.MULTILINE) is not None
    return (bool(counts) or says_none) and not has_some


def has_built_nothing(command: str, output: str, cpu_seconds: float) -> bool:
    """Whether a build by make or CMake found nothing to compile; False for others, which say nothing about it.

    A target of make that only prints what there is to build takes no time.
    """
    if "cmake --build" in command:
        return re.search(r"^\[[ \d%/]+\] (?:Building|Linking) ", output, re.MULTILINE) is None
    is_idle = re.search(r"^make(?:\[\d+\])?: Nothing to be done for '[^']*'\.$", output, re.MULTILINE)
    is_short = re.search(r"\bmake\b", command) is not None and cpu_seconds < _SHORTEST_BUILD
    return (is_idle is not None or is_short) and re.search(_COMPILED, output, re.MULTILINE) is None


def is_only_usage(output: str) -> bool:
    """Whether the output is nothing but how the command is used: it wants arguments, and has measured nothing."""
    lines = output.strip().splitlines()
    return 0 < len(lines) <= _LONGEST_USAGE and re.match(r"\s*usage\s*:", lines[0], re.IGNORECASE) is not None
