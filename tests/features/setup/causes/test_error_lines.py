"""The error is found in what real programs print."""

from pathlib import Path

import pytest

from loopty.evaluators.error_lines import MAX_LINES, find_error_lines

OUTPUTS = Path(__file__).parent / "outputs"


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        ("python_traceback", "ModuleNotFoundError: No module named 'numpyx'"),
        ("python_syntax", "SyntaxError: invalid syntax"),
        ("pytest_assert", "E       assert (1 + 1) == 3"),
        ("child_failed", "bench.c:3:5: error: unknown type name 'flaot'"),
        ("node_require", "Error: Cannot find module 'lodashx'"),
        (
            "node_import",
            "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'lodashx' imported from /loopty/tree/n.mjs",
        ),
        ("node_type", "TypeError: Cannot read properties of null (reading 'x')"),
        ("make_compile", "c.c:1:24: error: expected expression before ‘;’ token"),
        ("make_program", "make: cargox: No such file or directory"),
        ("make_target", "make: *** No rule to make target 'nothere.h', needed by 'value'.  Stop."),
        ("linker", "l.c:(.text+0xa): undefined reference to `foo'"),
        ("cargo_compile", "error[E0308]: mismatched types"),
        ("cargo_offline", "error: no matching package named `serde` found"),
        ("go_panic", "panic: runtime error: index out of range [5] with length 3"),
    ],
)
def test_the_cause_is_the_error_and_not_the_last_line(output, cause):
    found = find_error_lines((OUTPUTS / f"{output}.txt").read_text())
    assert found.cause == cause
    assert found.is_certain
    assert cause in [line.strip() for line in found.lines]
    assert len(found.lines) <= MAX_LINES


def test_the_lines_of_a_traceback_show_where_it_was_raised():
    found = find_error_lines((OUTPUTS / "python_traceback.txt").read_text())
    assert found.lines[-3:] == (
        '  File "/loopty/tree/a.py", line 3, in load',
        "    import numpyx",
        "ModuleNotFoundError: No module named 'numpyx'",
    )


def test_an_exception_without_a_message_of_its_own_has_the_next_line():
    found = find_error_lines("Traceback (most recent call last):\n  File x\nImportError:\n\nPlease read this\n")
    assert found.cause == "ImportError: Please read this"


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        ("one\ntwo\n\n", "two"),
        ("warming up\n12 passed, 0 failed, 0 errors\nbye\n", "bye"),
        ("\x1b[31mred\x07\n", "red"),
        ("x" * 9000, "x" * 200),
    ],
)
def test_without_a_sign_of_an_error_it_is_the_last_line(output, cause):
    found = find_error_lines(output)
    assert (found.cause, found.is_certain) == (cause, False)


def test_nothing_is_found_in_nothing():
    assert find_error_lines(" \n\n") is None


def test_hostile_lines_are_short_and_hold_no_control_characters():
    found = find_error_lines("error: \x1b]0;title\x07\u202e" + "y" * 5000 + "\n" + "\t" * 3000 + "z\n" * 9)
    assert all(line.isprintable() and len(line) <= 200 for line in found.lines)
    assert len(found.lines) == MAX_LINES
