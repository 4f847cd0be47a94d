"""A test runner that ended well may have run nothing: what runners print tells."""

import pytest

from loopty.features.setup.causes.results import has_run_no_tests, is_only_usage

NOTHING = [
    "----------------------------------------------------------------------\nRan 0 tests in 0.000s\n\nOK",
    "running 0 tests\n\ntest result: ok. 0 passed; 0 failed\nrunning 0 tests",
    "# TOTAL: 0\n# PASS:  0\nmake[1]: Nothing to be done for 'check'.",
    "?   \texample.org/a\t[no test files]",
    "ok  \texample.org/a\t0.002s [no tests to run]",
    "make: Nothing to be done for 'test'.",
    "make: 'tests' is up to date.",
    "  0 passing (1ms)",
    "Files=0, Tests=0,  0 wallclock secs",
    "gcc -c a.c\nmake  check-recursive\nmake[1]: Entering directory '/t'\nmake[1]: Leaving directory '/t'",
]
SOMETHING = [
    "Ran 1 test in 0.000s\n\nOK",
    "running 12 tests\nrunning 0 tests",
    "# TOTAL: 3\n# PASS:  3\nmake[1]: Nothing to be done for 'check'.",
    "ok  \texample.org/a\t0.020s\n?   \texample.org/b\t[no test files]",
    "make[2]: Nothing to be done for 'check'.\nPASS: t1",
    "make[1]: 'test' is up to date.\n./test\nall good",
    "  12 passing (1ms)",
    "1..3\nok 1 - a",
    "everything is fine",
    "make  check-am\nmake[1]: Entering directory '/t'\n./run-tests\nmake[1]: Leaving directory '/t'",
    "make  check-am\nmake[1]: Entering directory '/t'\nmake  check-TESTS\nmake[1]: Leaving directory '/t'",
    "",
]


@pytest.mark.parametrize("output", NOTHING)
def test_a_runner_that_names_no_test_has_run_none(output):
    assert has_run_no_tests(output)


@pytest.mark.parametrize("output", SOMETHING)
def test_a_runner_that_names_a_test_or_says_nothing_about_it_is_believed(output):
    assert not has_run_no_tests(output)


def test_many_words_of_make_take_no_time():
    lines = "make[2]: Entering directory '/tmp/make/make/make'\n" * 2000
    assert not has_run_no_tests(f"Making check in make\n{lines}./test\n")


def test_a_command_that_only_prints_how_it_is_used_has_measured_nothing():
    assert is_only_usage("Usage: bench/bench_multi_compilers.sh compilerlist.txt benchfile.cpp\n")
    assert is_only_usage("usage: bench.py [-h] FILE\n\noptions:\n  -h  show this\n")
    assert not is_only_usage("parse x 12 ops/sec\nusage: 12 MB\n")
    assert not is_only_usage("")
