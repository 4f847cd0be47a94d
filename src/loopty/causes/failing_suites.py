"""Causes: tests of a suite (CTest, Automake, Perl, Cargo, Mocha, Jest) that fail on the files as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence

from loopty.causes.cause import Cause
from loopty.causes.failing_node_tests import without_jest, without_mocha
from loopty.causes.failure import Failure
from loopty.causes.host_facts import HostFacts

_MOST_TESTS = 40
_PLAIN = re.compile(r"[A-Za-z0-9_][\w.:/+-]*")
"""Names that mean nothing to a shell; a test that is named otherwise is not left out."""
_CTEST_COUNT = re.compile(r"^\d+% tests passed, (\d+) tests? failed out of (\d+)$", re.MULTILINE)
_CTEST_FAILED = re.compile(
    r"^\s+\d+ - (\S+) \((?:Failed|Not Run|Timeout|SEGFAULT|.*aborted|.*Exception.*)\)", re.M
)
_CTEST_OPTION = re.compile(r' -E "\^\(([^"]*)\)\$"')
_CTEST = "ctest --no-tests=error"
_AUTOMAKE = re.compile(r"\bmake check(?: XFAIL_TESTS=\"([^\"]*)\")?(?! TESTS=)")
_AUTOMAKE_FAILED = re.compile(r"^(?:FAIL|XFAIL): ([^\s:]+)$", re.MULTILINE)
_AUTOMAKE_PASSED = re.compile(r"^PASS: (\S+)", re.MULTILINE)
_PERL = "make test"
_PERL_FAILED = re.compile(r"^(\S+\.t)\s+\(Wstat: ", re.MULTILINE)
_PERL_PASSED = re.compile(r"^(t/\S+\.t) \.+ ok$", re.MULTILINE)
_CARGO = re.compile(r"\bcargo test --quiet(?! --no-run)(?: -- ([^'\"&|;]*))?")
_CARGO_FAILED = re.compile(r"^ {4}([\w:]+)$", re.MULTILINE)
_CARGO_PASSED = re.compile(r"^test result: \w+\. (\d+) passed", re.MULTILINE)


def failing_tests_of_a_suite(failure: Failure, _facts: HostFacts) -> Cause | None:
    """Some tests that fail, of more that pass."""
    for without_them in (
        _without_ctest,
        _without_automake,
        _without_perl,
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


def _without_automake(command: str, output: str) -> tuple[Sequence[str], str] | None:
    failed, passed = _plain_names(_AUTOMAKE_FAILED.findall(output)), _AUTOMAKE_PASSED.findall(output)
    found = _AUTOMAKE.search(command)
    if found is None or "# TOTAL:" not in output or not failed or len(passed) <= len(failed):
        return None
    names = " ".join(dict.fromkeys([*(found[1] or "").split(), *failed]))
    return failed, _AUTOMAKE.sub(f'make check XFAIL_TESTS="{names}"', command)


def _without_perl(command: str, output: str) -> tuple[Sequence[str], str] | None:
    failed, passed = _plain_names(_PERL_FAILED.findall(output)), _plain_names(_PERL_PASSED.findall(output))
    if not command.endswith(_PERL) or not failed or len(passed) <= len(failed):
        return None
    return failed, f'{command} TEST_FILES="{" ".join(passed)}"'


def _without_cargo(command: str, output: str) -> tuple[Sequence[str], str] | None:
    failed, passed = _plain_names(_CARGO_FAILED.findall(output)), map(int, _CARGO_PASSED.findall(output))
    found = _CARGO.search(command)
    if found is None or not failed or sum(passed) <= len(failed) or "test result: FAILED" not in output:
        return None
    skips = " ".join(dict.fromkeys([*filter(None, [found[1]]), *(f"--skip {name}" for name in failed)]))
    return failed, _CARGO.sub(f"cargo test --quiet -- {skips}", command)


def _plain_names(names: Sequence[str]) -> list[str]:
    """The names, each once; none where one of them is not plain, or where they are too many for a command."""
    once = list(dict.fromkeys(names))
    return once if len(once) <= _MOST_TESTS and all(_PLAIN.fullmatch(name) for name in once) else []
