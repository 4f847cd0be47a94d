"""Seeded edits change code only where it is editable, and always in the same way."""

import ast
import random
import warnings
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loopty.kit.markers import change_outside_blocks, editable_spans
from loopty.proposers.mutation import Mutation, mutate

PYTHON = '''"""Doc 1 + 2."""
import math

RATE = 0.35  # größer
flag = True


def f(x, n=10):
    """Doc 3."""
    total = 0
    for i in range(n):
        total += x * i - 1.5e-3
        print("π 7", f"{x + 4}", x)
    if x < n and total is not None:
        total = total / 2
    return total


if __name__ == "__main__":
    f(99)
'''
C = """#include <stdio3.h>
#define SIZE 64
/* 5 + 5 */
float f(float x) { // 6
    float y = 1.5f;
    y = y * x + 10UL;
    y += 0x1F;
    printf("%d 7\\n", '8');
    return y;
}
"""
JAVASCRIPT = "let a = 10;\na = a * 2;\nb.push(`7 ${a}`);\nif (a === 3 && !b) { a += 1; }\nx = '8'; // 9\n"
RUST = """fn f<'a>(x: &'a str) -> f64 {
    for i in 0..10 {
        y.0 += 1.5_f64;
        s(1_000u64);
    }
}
"""
FORTRAN = "program p\n  real :: x\n  x = 1.0d0 ! 7\n  y = x ** 2\n  if (x .lt. 3.5 .and. y > 0) x = 0.5_dp\nend\n"
SHELL = "#!/bin/sh\n# 7\nn=$((m * 5))\nif [ $n -lt 10 ]; then\n  sleep 3 && echo '8' 2>&1\n  echo a\nfi\n"
LUA = "-- 7\nlocal x = 3\nx = x + 1\nprint(x)\n"
LISP = "; 7\n(defun f (x) (* x 3))\n(print 1)\n(print 2)\n"
SOURCES = {
    "a.py": PYTHON,
    "a.c": C,
    "a.js": JAVASCRIPT,
    "a.rs": RUST,
    "a.f90": FORTRAN,
    "a.sh": SHELL,
    "a.lua": LUA,
    "a.el": LISP,
}
MARKED = "import os\n# EVOLVE-BLOCK-START\nx = 1\ny = x + 2\n# EVOLVE-BLOCK-END\nz = 3\n"


@cache
def mutations(text: str, path: str) -> list[Mutation]:
    drawn = [mutate(text, path, random.Random(seed)) for seed in range(300)]
    assert all(drawn)
    return [mutation for mutation in drawn if mutation]


def summaries(text: str, path: str) -> str:
    return "\n".join(mutation.summary for mutation in mutations(text, path))


@pytest.mark.parametrize("path", SOURCES)
def test_every_kind_occurs_and_numbers_most_often(path: str) -> None:
    kinds = [mutation.operator for mutation in mutations(SOURCES[path], path)]
    assert set(kinds) == {"number", "operator", "statement"}
    assert kinds.count("number") > len(kinds) / 3


@pytest.mark.parametrize("path", SOURCES)
def test_strings_and_comments_do_not_change(path: str) -> None:
    for mutation in mutations(SOURCES[path], path):
        assert not any(f"{digit} →" in mutation.summary for digit in "6789")


def test_python_keeps_its_formatting_and_parses() -> None:
    for mutation in mutations(PYTHON, "a.py"):
        ast.parse(mutation.text)
        assert "import math\n" in mutation.text
        assert mutation.text.endswith('if __name__ == "__main__":\n    f(99)\n')
        assert '"""Doc 3."""' in mutation.text
        if mutation.operator != "statement":
            assert "# größer" in mutation.text
            assert 'f"{x + 4}"' in mutation.text


@pytest.mark.parametrize(
    "expected",
    [
        "0.35 →",
        "1.5e-3 →",
        "True → False",
        "+= →",
        "< →",
        "and → or",
        "is not → is",
        "delete statement",
        "duplicate statement",
        "swap statement",
    ],
)
def test_python_is_edited_in_many_ways(expected: str) -> None:
    assert expected in summaries(PYTHON, "a.py")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.c", ["1.5f", "10UL", "0x1F", "64", "* →", "+= →"]),
        ("a.js", ["10", "=== → !==", "&& → ||", "swap statement"]),
        ("a.rs", ["0 ", "10 ", "1.5_f64", "1_000u64", "+= →"]),
        ("a.f90", ["1.0d0", "0.5_dp", ".lt. →", ".and. → .or.", "** →"]),
        ("a.sh", ["5", "10", "-lt →", "&& → ||", "* →"]),
        ("a.el", ["3", "* →", "swap statement"]),
    ],
)
def test_each_language_is_edited_by_its_tokens(path: str, expected: list[str]) -> None:
    seen = summaries(SOURCES[path], path)
    assert [token for token in expected if token not in seen] == []


def test_literals_keep_their_notation() -> None:
    for mutation in mutations("y = 0x1F * 1.5f;\n", "a.c"):
        if mutation.operator == "number":
            assert "0x" in mutation.text
            assert mutation.text.endswith("f;\n") or mutation.text.endswith("f);\n")
    for mutation in mutations("x = 1.0d0\n", "a.f90"):
        if mutation.operator == "number":
            assert "d" in mutation.text


def test_integers_stay_integers_and_floats_stay_floats() -> None:
    for mutation in mutations("a = 5\nb = 0.0\n", "a.py"):
        if mutation.operator == "number":
            scope: dict[str, object] = {}
            exec(mutation.text, scope)
            assert (type(scope["a"]), type(scope["b"])) == (int, float)


def test_a_subtraction_never_becomes_a_decrement() -> None:
    assert not any("--" in mutation.text for mutation in mutations("y = x-5;\n", "a.c"))


def test_a_block_is_never_left_empty() -> None:
    for mutation in mutations("if x:\n    y = a\nz = b\n", "a.py"):
        ast.parse(mutation.text)


def test_python_that_does_not_parse_is_edited_by_tokens() -> None:
    assert "5 →" in summaries("def f(:\n    x = 5\n", "a.py")


@pytest.mark.parametrize("text", ["", "\n", "import os\n", '"""Only words."""\n', "def f(): pass\n"])
def test_a_text_without_anything_to_change_gives_no_mutation(text: str) -> None:
    assert mutate(text, "a.py", random.Random(0)) is None


def test_only_marked_blocks_change() -> None:
    for mutation in mutations(MARKED, "a.py"):
        assert change_outside_blocks(MARKED, mutation.text) is None


@pytest.mark.parametrize(
    "line",
    [
        "# {}",
        "// {}",
        "! {}",
        "-- {}",
        "(* {} *)",
        "<!-- {} -->",
        ";; {}",
        "% {}",
        "/* {} */",
        "  #{} x",
        "a # {}",
    ],
)
def test_markers_are_found_in_the_comments_of_any_language(line: str) -> None:
    start, end = line.format("EVOLVE-BLOCK-START"), line.format("EVOLVE-BLOCK-END")
    text = f"a\r\n{start}\r\nb\r\n{end}"
    assert [span.part_of(text) for span in editable_spans(text)] == ["b\r\n"]


def test_without_markers_the_whole_text_is_editable() -> None:
    assert editable_spans("EVOLVE-BLOCK-START = 1") == ((0, 22),)
    assert change_outside_blocks("a", "b") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n# EVOLVE-BLOCK-END\n", "line 2: EVOLVE-BLOCK-END without a START before it"),
        ("# EVOLVE-BLOCK-START\n", "line 1: EVOLVE-BLOCK-START without an END after it"),
        ("# EVOLVE-BLOCK-START\n# EVOLVE-BLOCK-START\n", "line 2: EVOLVE-BLOCK-START inside another block"),
    ],
)
def test_malformed_markers_name_their_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        editable_spans(text)


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (MARKED.replace("z = 3", "z = 4"), "line 6 is outside the marked blocks and was changed"),
        (MARKED.replace("import os", "import sys"), "line 1 is outside the marked blocks and was changed"),
        (MARKED + "\n", "line 8 is outside the marked blocks and was changed"),
        (MARKED.replace("# EVOLVE-BLOCK-END", "#  EVOLVE-BLOCK-END"), "line 5 is outside"),
        (
            MARKED.replace("x = 1", "# EVOLVE-BLOCK-END\n# EVOLVE-BLOCK-START"),
            "the number of marked blocks changed from 1 to 2",
        ),
        (MARKED.replace("x = 1", "# EVOLVE-BLOCK-END"), "the marked blocks are broken: line 5: "),
        ("x = 1\n", "line 1 is outside"),
    ],
)
def test_a_change_outside_the_blocks_is_named(after: str, reason: str) -> None:
    assert (change_outside_blocks(MARKED, after) or "").startswith(reason)


paths = st.sampled_from([*SOURCES, "a.txt", "Makefile", "a.json", "a.sql", "a.go"])
texts = st.one_of(
    st.text(),
    st.text(st.sampled_from("x1.+-*/=<>()[]{}\"'`#\\;: \r\nπ\0")),
    st.lists(st.sampled_from("\n".join(SOURCES.values()).split("\n"))).map("\n".join),
)


@given(texts, paths, st.integers(0, 99))
@settings(deadline=None)
def test_any_text_is_changed_the_same_way_twice_or_left_alone(text: str, path: str, seed: int) -> None:
    mutation = mutate(text, path, random.Random(seed))
    assert mutation == mutate(text, path, random.Random(seed))
    assert mutation is None or mutation.text != text


@given(st.sampled_from(sorted(SOURCES)), st.integers(), st.booleans())
@example("a.f90", 175_006_352_965_916, False)
@settings(deadline=None)
def test_line_ends_are_preserved(path: str, seed: int, final: bool) -> None:
    text = SOURCES[path].replace("\n", "\r\n")
    text = text if final else text.rstrip("\r\n")
    mutation = mutate(text, path, random.Random(seed))
    assert mutation
    assert "\n" not in mutation.text.replace("\r\n", "")
    assert mutation.text.endswith("\r\n") == final


@given(st.text(st.sampled_from("abπ1 +-*=<()[],:\n\r;#'\"")), st.integers(0, 99))
@settings(deadline=None)
def test_python_stays_python(text: str, seed: int) -> None:
    source = f"# {text!r}\nλ = 'π'; x = [1, -2.5, 'π' + {text!r}, 3]  # π\nx = x\ny = x"
    mutation = mutate(source, "a.py", random.Random(seed))
    assert mutation
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(mutation.text, "a.py", "exec")


@given(st.lists(st.sampled_from(PYTHON.split("\n")), max_size=8), st.integers(0, 99), paths)
@settings(deadline=None)
def test_text_outside_the_blocks_never_changes(lines: list[str], seed: int, path: str) -> None:
    block = "\n".join(lines)
    text = f"x = 1\n# EVOLVE-BLOCK-START\n{block}\n# EVOLVE-BLOCK-END\ny = 2\n" * 2
    mutation = mutate(text, path, random.Random(seed))
    assert mutation is None or change_outside_blocks(text, mutation.text) is None
