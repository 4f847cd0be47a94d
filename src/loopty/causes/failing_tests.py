"""Causes: a few tests of the repository that fail on its own files, in the sandbox or everywhere."""

from __future__ import annotations

import re
import shlex

from loopty.causes.cause import Cause
from loopty.causes.failure import Failure
from loopty.causes.host_facts import HostFacts

_PYTEST = re.compile(r"\bpytest\b")
_NO_OPTIONS = " -o addopts="
_NO_COVERAGE = " --no-cov"
_STOP = " -x "
_GO_ON = " --continue-on-collection-errors -rpfE "
"""Names the tests that pass, too, and before those that fail: of a long log, only the end is read."""
_PATHS = re.compile(r"(?<= -p no:cacheprovider )[^|;&<>()$`]+$")
"""The paths at the end of the command that `init` proposes."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py)(::\S.*?)?(?: - .*)?$", re.MULTILINE)
_PASSED = re.compile(r"\b(\d+) passed\b")
_PASSED_TEST = re.compile(r"^PASSED (\S+?\.py)(::\S.*)$", re.MULTILINE)
_MOST_TESTS, _MOST_FILES = 12, 6
"""What is run where nearly nothing passes."""
_MOST_TESTS_LEFT_OUT, _MOST_FILES_LEFT_OUT = 40, 20
"""What is left out where most pass: of more, the command would be too long to read."""


def unknown_options(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Options of a plug-in that the configuration of pytest has, and that is not installed."""
    found = failure.match(r"error: unrecognized arguments: (?P<options>.+)")
    if found is None or not _PYTEST.search(failure.command) or _NO_OPTIONS in failure.command:
        return None
    if "--benchmark-" in found["options"] and failure.task.benchmark.result == "pytest-benchmark":
        return Cause(
            "missing-python-module",
            "pytest-benchmark is not installed for the python3 of your shell, which trials use",
            shell="python3 -m pip install pytest-benchmark",
        )
    return Cause(
        "unknown-options-of-pytest",
        f"the configuration of pytest has options of a plug-in that is not installed: {found['options'].strip()}",
        (failure.own_setting("command", _PYTEST.sub(f"pytest{_NO_OPTIONS}", failure.command, count=1)),),
    )


def too_little_coverage(failure: Failure, _facts: HostFacts) -> Cause | None:
    """A bound on coverage, which the chosen tests miss; measuring it would be most of the score, too."""
    found = failure.match(r"Coverage failure: total of .*|Required test coverage of .* not reached.*")
    if found is None or not _PYTEST.search(failure.command) or _NO_COVERAGE in failure.command:
        return None
    return Cause(
        "too-little-coverage",
        f"the configuration of pytest asks for more coverage than these tests have: {found[0].strip()}",
        (failure.own_setting("command", _PYTEST.sub(f"pytest{_NO_COVERAGE}", failure.command, count=1)),),
    )


def first_failed_test(failure: Failure, _facts: HostFacts) -> Cause | None:
    """A test that ended the others: without `-x`, pytest says which of them fail."""
    if not (_PYTEST.search(failure.command) and _STOP in failure.command and _FAILED.search(failure.output)):
        return None
    return Cause(
        "failing-test",
        f"{failure.subject} stops at a test that fails on the files as they are: another run shows which ones do",
        (failure.own_setting("command", failure.command.replace(_STOP, _GO_ON, 1)),),
        is_guess=True,
    )


def failing_tests(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Some tests that fail, of many that pass: they are left out."""
    if not _PYTEST.search(failure.command) or _STOP in failure.command:
        return None
    failed = list(dict.fromkeys(_FAILED.findall(failure.output)))
    passed = max((int(number) for number in _PASSED.findall(failure.output)), default=0)
    if not failed or not passed:
        return None
    if passed <= len(failed):
        return _files_that_pass(failure, {path for path, _ in failed})
    files = list(dict.fromkeys(path for path, test in failed if not test))
    tests = [f"{path}{test}" for path, test in failed if test and path not in files]
    if len(tests) > _MOST_TESTS_LEFT_OUT:
        files, tests = list(dict.fromkeys(path for path, _ in failed)), []
    if len(files) > _MOST_FILES_LEFT_OUT:
        return _files_that_pass(failure, {path for path, _ in failed})
    options = [shlex.quote(f"--ignore={path}") for path in files]
    options += [shlex.quote(f"--deselect={test}") for test in tests]
    names = ", ".join([*files, *tests][:3]) + (", …" if len(options) > 3 else "")
    line = failure.command.replace(_GO_ON, f"{_STOP}{' '.join(options)} ", 1)
    if line == failure.command:
        return None
    return Cause(
        "failing-tests",
        f"these tests do not pass on the files as they are, and are left out: {names}",
        (failure.own_setting("command", line),),
        is_guess=True,
    )


def _files_that_pass(failure: Failure, failed: set[str]) -> Cause | None:
    """A few files whose tests all pass, or a few tests, where most of the others do not."""
    tests = list(dict.fromkeys(_PASSED_TEST.findall(failure.output)))
    files = [path for path in dict.fromkeys(path for path, _ in tests) if path not in failed]
    chosen = files[:_MOST_FILES] or [f"{path}{test}" for path, test in tests[:_MOST_TESTS]]
    line = _PATHS.sub(lambda _: " ".join(map(shlex.quote, chosen)), failure.command.replace(_GO_ON, _STOP, 1))
    if not chosen or _GO_ON not in failure.command or not _PATHS.search(failure.command):
        return None
    names = ", ".join(chosen[:3]) + (", …" if len(chosen) > 3 else "")
    return Cause(
        "few-tests-pass",
        f"most tests do not pass on the files as they are, so only these are run: {names}",
        (failure.own_setting("command", line),),
        is_guess=True,
    )
