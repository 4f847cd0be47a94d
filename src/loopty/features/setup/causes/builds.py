"""Causes: a build of C or C++ that lacks a library, or runs too much at once."""

from __future__ import annotations

import re

from loopty.features.setup.causes.failure import Failure, HostFacts
from loopty.features.setup.causes.programs import PackageInstaller, is_known_library
from loopty.show.explanation import Cause

_NAME = r"(?P<name>[A-Za-z][\w.+-]*)"
_NOT_FOUND = (
    rf"Could NOT find {_NAME} ",
    rf'configuration file provided by "{_NAME}"',
    rf"No package '{_NAME}' found",
    rf"(?:^|were not met: )Package '{_NAME}', required by '[^']*', not found",
    rf"fatal error: {_NAME}(?:/[\w./+-]*)?: No such file or directory",
    rf'Dependency "{_NAME}" not found',
    rf"cannot find -l{_NAME}",
    rf"configure: error: (?:lib)?{_NAME} (?:library )?(?:is )?(?:not found|required)",
    rf"configure: error: (?:cannot|could not|can't|unable to) find [^\n]*\blib(?!c\b|m\b){_NAME}",
    rf"The {_NAME} (?:headers|library|libraries) (?:were|was|is) not found",
)
_LEFT_OUT = (
    r"Package '([\w.+-]+)'[^\n]* not found",
    r"^checking for ([\w.+-]+)(?: [<>=]+ [\d.]+)?\.\.\. no$",
    r"Could NOT find ([\w.+-]+) ",
)
"""How configure and CMake name a library that they can do without."""
_FRAMEWORKS = r"gtest|gmock|googletest|catch2?|doctest|cppunit|cunit|cmocka|check|criterion"
NO_TEST_RAN = "the command ended well, and no test ran"


def missing_development_library(failure: Failure, facts: HostFacts) -> Cause | None:
    """Explain a library whose files for builds are not installed."""
    found = failure.match(*_NOT_FOUND)
    if found is None:
        return None
    stem = re.sub(r"\.(?:h|hh|hpp|pc)$", "", found["name"])
    if any(facts.has_tracked_files(folder) for folder in (stem, f"include/{stem}", f"src/{stem}")):
        return None  # a file that the repository itself has not
    install = PackageInstaller(facts).library_line(stem)
    if not (install or is_known_library(stem)):
        return None
    advice = "" if install else f"install the package of your system that has the headers of {stem}"
    sentence = f"the build needs the library {stem}, whose files for builds are not installed on this machine"
    return Cause("missing-development-library", sentence, shell=install, advice=advice)


def missing_test_framework(failure: Failure, facts: HostFacts) -> Cause | None:
    """Explain a build that leaves its tests out, because the library that they need is not installed."""
    if not failure.match(NO_TEST_RAN, r"No tests were found"):
        return None
    for pattern in _LEFT_OUT:
        for name in re.findall(pattern, failure.output, re.MULTILINE):
            is_framework = re.fullmatch(_FRAMEWORKS, name, re.IGNORECASE)
            if is_framework and (install := PackageInstaller(facts).library_line(name)):
                sentence = (
                    f"the build left its tests out: they need {name}, which is not installed on this machine"
                )
                return Cause("missing-test-library", sentence, shell=install)
    return None


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
_GENERATED_HEADER = r"fatal error: (?P<name>[A-Za-z][\w+-]*)(?:/[\w./+-]*|\.h(?:pp)?): No such file"


def parallel_make(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a missing file that make builds a moment later: one step after the other, it is there in time."""
    if not (_PARALLEL.search(failure.command) and failure.match(*_NOT_YET_BUILT)):
        return None
    header = failure.match(_GENERATED_HEADER)
    if header and is_known_library(header["name"]):
        return None  # that no build of the repository makes
    return Cause(
        "parallel-make",
        f"{failure.subject} builds several things at once, and one of them was needed before it was there",
        (failure.own_setting("command", _PARALLEL.sub(r"\1", failure.command)),),
    )
