"""Causes: code that the compiler of this machine refuses, and an older or a more patient one does not."""

from __future__ import annotations

import re

from loopty.causes.cause import Cause
from loopty.causes.failure import Failure
from loopty.causes.host_facts import HostFacts

_FLAGS = {
    r"\[-fpermissive\]": (
        "the C++ compiler of this machine refuses code that older ones took, and says which flag allows it",
        'export CXXFLAGS="-fpermissive $CXXFLAGS"',
    ),
    r"\[-Werror(?:=[\w-]+)?\]|all warnings being treated as errors": (
        "the build takes warnings for errors, and the compiler of this machine has more warnings",
        'export CFLAGS="-Wno-error $CFLAGS" CXXFLAGS="-Wno-error $CXXFLAGS"',
    ),
    r"altStackMem|SIGSTKSZ": (
        "the test framework in the repository is too old for the C library of this machine: it takes a size for a "
        "constant that no longer is one",
        'export CXXFLAGS="-DCATCH_CONFIG_NO_POSIX_SIGNALS -DDOCTEST_CONFIG_NO_POSIX_SIGNALS $CXXFLAGS"',
    ),
    r"multiple definition of .*first defined here": (
        "the C code defines variables in headers, which compilers took until a few years ago",
        'export CFLAGS="-fcommon $CFLAGS"',
    ),
    r"\[-Wimplicit-function-declaration\]|\[-Wimplicit-int\]|\[-Wincompatible-pointer-types\]": (
        "the C compiler of this machine refuses code that older ones took",
        'export CFLAGS="-Wno-error=implicit-function-declaration -Wno-error=implicit-int '
        '-Wno-error=incompatible-pointer-types $CFLAGS"',
    ),
    r"unrecognized command[- ]line option '-[fm][\w=-]+'|unknown argument: '-[fm][\w=-]+'": (
        "the build gives the compiler an option that newer ones no longer know",
        'export MAKEFLAGS="CFLAGS=-O2 CXXFLAGS=-O2 $MAKEFLAGS"',
    ),
}
"""What compilers and linkers print, why, and what lets them pass."""
_GO_TEST = re.compile(r"\bgo test\b(?! -vet)")
_VETTED = (
    r"\.go:\d+:\d+: .*(?:format %\S+ (?:has|reads) arg|possible (?:Print\w* )?formatting directive"
    r"|redundant newline|non-constant format string|yields a string of one rune)"
)
"""What `go vet` prints, which `go test` runs first, and no compiler."""


def strict_compiler(failure: Failure, _facts: HostFacts) -> Cause | None:
    """An error that a flag of the compiler allows; builds read the flags from the environment."""
    for pattern, (sentence, exports) in _FLAGS.items():
        if failure.match(pattern) and failure.match(r"\berror: |multiple definition|being treated as errors"):
            line = f"{exports}; {failure.command}"
            return Cause("strict-compiler", sentence, (failure.own_setting("command", line),))
    return None


def strict_vet(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Code that compiles, and that the checks of a newer `go vet` refuse before the tests run."""
    found = failure.match(_VETTED)
    if found is None or not _GO_TEST.search(failure.command):
        return None
    line = _GO_TEST.sub("go test -vet=off", failure.command)
    sentence = "`go test` asks `go vet` first, and that of this machine refuses what older ones took"
    return Cause("strict-vet", sentence, (failure.own_setting("command", line),))
