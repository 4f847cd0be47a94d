"""Causes: tests of the repository that fail on its own files; the options of each suite that leave them out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from loopty.features.setup.causes.failure import Failure, HostFacts
from loopty.show.explanation import Cause

_MOCHA_PASSED = re.compile(r"^ +(\d+) passing\b", re.MULTILINE)
_MOCHA_FAILED = re.compile(r"^ +\d+ failing\n(?P<list>.*)", re.MULTILINE | re.DOTALL)
_MOCHA_TITLE = re.compile(r"^  \d+\) (?P<title>.+(?:\n {7,}\S.*)*?):$", re.MULTILINE)
"""The titles of the groups that a test is in, one on each line, and its own, which ends with a colon."""
_HOOK = re.compile(r'"(?:before|after) (?:all|each)" hook')
_MOCHA_OPTION = re.compile(r'(?: --)? --invert --grep "\^\((?P<names>[^"]*)\)\$"')
_JEST_COUNT = re.compile(r"^Tests: +(?P<failed>\d+) failed, (?:\d+ \w+, )*?(?P<passed>\d+) passed, ", re.MULTILINE)
_JEST_TITLE = re.compile(r"^  ● (.+)$", re.MULTILINE)
_JEST_NOT_RUN = "Test suite failed to run"
_JEST_OPTION = re.compile(r'(?: --)? --testNamePattern "\^\(\?!\((?P<names>[^"]*)\)\$\)"')
_STARTED = re.compile(r"\b(?P<npm>npm (?:test|run)\b.*)|\b(?:mocha|jest)\b")
_MOST_NODE_TESTS = 40


def without_mocha(command: str, output: str) -> tuple[Sequence[str], str] | None:
    """List Mocha's failed tests, of more that pass, and the command without them; None for another runner."""
    passed, failed = _MOCHA_PASSED.search(output), _MOCHA_FAILED.search(output)
    if not (passed and failed):
        return None
    titles = [" ".join(title.split()) for title in _MOCHA_TITLE.findall(failed["list"])]
    if len(titles) >= int(passed[1]) or any(map(_HOOK.search, titles)):
        return None
    return _without(command, titles, _MOCHA_OPTION, '--invert --grep "^({names})$"')


def without_jest(command: str, output: str) -> tuple[Sequence[str], str] | None:
    """Do the same for Jest; a file that cannot be loaded has no titles to leave out."""
    count = _JEST_COUNT.search(output)
    if count is None or int(count["failed"]) >= int(count["passed"]) or _JEST_NOT_RUN in output:
        return None
    titles = [title.replace(" › ", " ").strip() for title in _JEST_TITLE.findall(output)]
    return _without(command, titles, _JEST_OPTION, '--testNamePattern "^(?!({names})$)"')


def _without(
    command: str, titles: Sequence[str], option: re.Pattern[str], text: str
) -> tuple[Sequence[str], str] | None:
    """List the titles once, and make the command that leaves them out, and what it had left out."""
    once = list(dict.fromkeys(titles))
    before, bare = option.search(command), option.sub("", command)
    started = _STARTED.search(bare)
    if started is None or not 0 < len(once) <= _MOST_NODE_TESTS:
        return None
    # Whatever could mean something to a shell or in a pattern stands for any character.
    patterns = [*(before["names"].split("|") if before else ()), *(re.sub(r"[^\w ]", ".", one) for one in once)]
    separator = " --" if started["npm"] else ""
    quote = "'" if bare.endswith("'") else ""
    words = text.format(names="|".join(dict.fromkeys(patterns)))
    return once, f"{bare.removesuffix(quote)}{separator} {words}{quote}"


_MOST_SUITE_TESTS = 40
_PLAIN = re.compile(r"[A-Za-z0-9_][\w.:/+-]*")
"""Names that mean nothing to a shell; a test that is named otherwise is not left out."""
_CTEST_COUNT = re.compile(r"^\d+% tests passed, (\d+) tests? failed out of (\d+)$", re.MULTILINE)
_CTEST_FAILED = re.compile(
    r"^\s+\d+ - (\S+) \((?:Failed|Not Run|Timeout|SEGFAULT|.*aborted|.*Exception.*)\)", re.M
)
_CTEST_OPTION = re.compile(r' -E "\^\(([^"]*)\)\$"')
_CTEST = "ctest --no-tests=error"
_CARGO = re.compile(
    r"\bcargo test --quiet(?P<kind> --release --tests)?(?! --no-run| --release)(?: -- (?P<skips>[^'\"&|;]*))?"
)
_CARGO_FAILED = re.compile(r"^ {4}([\w:]+)$", re.MULTILINE)
_CARGO_PASSED = re.compile(r"^test result: \w+\. (\d+) passed", re.MULTILINE)


def failing_tests_of_a_suite(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain some tests that fail, of more that pass."""
    for without_them in (
        _without_ctest,
        _without_cargo,
        without_mocha,
        without_jest,
    ):
        if found := without_them(failure.command, failure.output):
            failed, line = found
            names = ", ".join(failed[:3]) + (", …" if len(failed) > 3 else "")
            return Cause(
                "failing-tests",
                f"these tests do not pass on the files as they are, and are left out: {names}",
                (failure.own_setting("command", line),),
                is_guess=True,
            )
    return None


def _without_ctest(command: str, output: str) -> tuple[Sequence[str], str] | None:
    count, failed = _CTEST_COUNT.search(output), _plain_names(_CTEST_FAILED.findall(output))
    if _CTEST not in command or not (count and failed) or 2 * int(count[1]) >= int(count[2]):
        return None
    before = _CTEST_OPTION.search(command)
    names = [*(before[1].split("|") if before else ()), *(re.sub(r"([.+])", r"[\1]", name) for name in failed)]
    option = f' -E "^({"|".join(dict.fromkeys(names))})$"'
    bare = _CTEST_OPTION.sub("", command)
    return failed, bare.replace(_CTEST, f"{_CTEST}{option}")


def _without_cargo(command: str, output: str) -> tuple[Sequence[str], str] | None:
    failed, passed = _plain_names(_CARGO_FAILED.findall(output)), map(int, _CARGO_PASSED.findall(output))
    found = _CARGO.search(command)
    if found is None or not failed or sum(passed) <= len(failed) or "test result: FAILED" not in output:
        return None
    skips = " ".join(dict.fromkeys([*filter(None, [found["skips"]]), *(f"--skip {name}" for name in failed)]))
    return failed, _CARGO.sub(f"cargo test --quiet{found['kind'] or ''} -- {skips}", command)


def _plain_names(names: Sequence[str]) -> list[str]:
    """List the names, each once; none if one of them is not plain, or if they are too many for a command."""
    once = list(dict.fromkeys(names))
    return once if len(once) <= _MOST_SUITE_TESTS and all(_PLAIN.fullmatch(name) for name in once) else []


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
    """Explain options that pytest's configuration has, of a plug-in that is not installed."""
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
    """Explain a missed bound on coverage by the chosen tests; measuring it would be most of the score, too."""
    found = failure.match(r"Coverage failure: total of .*|Required test coverage of .* not reached.*")
    if found is None or not _PYTEST.search(failure.command) or _NO_COVERAGE in failure.command:
        return None
    return Cause(
        "too-little-coverage",
        f"the configuration of pytest asks for more coverage than these tests have: {found[0].strip()}",
        (failure.own_setting("command", _PYTEST.sub(f"pytest{_NO_COVERAGE}", failure.command, count=1)),),
    )


def first_failed_test(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain a test that ended the others: without `-x`, pytest says which of them fail."""
    if not (_PYTEST.search(failure.command) and _STOP in failure.command and _FAILED.search(failure.output)):
        return None
    return Cause(
        "failing-test",
        f"{failure.subject} stops at a test that fails on the files as they are: another run shows which ones do",
        (failure.own_setting("command", failure.command.replace(_STOP, _GO_ON, 1)),),
        is_guess=True,
    )


def failing_tests(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Explain some tests that fail, of many that pass: they are left out."""
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
    paths = _PATHS.search(failure.command)
    named = shlex.split(paths[0]) if paths else []
    options = [shlex.quote(f"--ignore={path}") for path in files if path not in named]
    options += [shlex.quote(f"--deselect={test}") for test in tests]
    names = ", ".join([*files, *tests][:3]) + (", …" if len(files) + len(tests) > 3 else "")
    # What the command names is run although it is ignored.
    kept = [path for path in named if path not in files]
    bare = _PATHS.sub(lambda _: " ".join(map(shlex.quote, kept)), failure.command) if named else failure.command
    line = bare.replace(_GO_ON, " ".join((_STOP.rstrip(), *options, "")), 1)
    if line == bare or (named and not kept):
        return None
    return Cause(
        "failing-tests",
        f"these tests do not pass on the files as they are, and are left out: {names}",
        (failure.own_setting("command", line),),
        is_guess=True,
    )


def _files_that_pass(failure: Failure, failed: set[str]) -> Cause | None:
    """Choose a few files whose tests all pass, or a few tests, if most of the others do not."""
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
