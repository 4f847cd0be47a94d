"""SEARCH and REPLACE: exactly one match, and nothing else of the file changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopty.domain.proposal import Objection
from loopty.proposers.code.reply_edits import Block, FileLines, ProposalFault


def replace_lines(before: str | None, search: str, replace: str) -> str:
    lines = [tuple(text.split("\n")) if text else () for text in (search, replace)]
    return Block("a.py", *lines).apply(before)


def objection(before: str | None, search: str, replace: str = "x") -> ProposalFault:
    with pytest.raises(ProposalFault) as caught:
        replace_lines(before, search, replace)
    assert caught.value.objection is Objection.APPLY
    assert len(caught.value.reason.splitlines()) == 1
    return caught.value


def test_a_block_replaces_lines() -> None:
    assert replace_lines("a\nb\nc\n", "b", "x\ny") == "a\nx\ny\nc\n"
    assert replace_lines("a\nb\nc\n", "a\nb\nc", "") == ""
    assert replace_lines("a\n\nb\n", "a\n\nb", "ä\n\u2028ü") == "ä\n\u2028ü\n"


def test_part_of_a_line_does_not_match() -> None:
    assert "not in the file" in objection("abc\n", "b").reason


def test_the_file_keeps_its_line_ends() -> None:
    assert replace_lines("a\r\nb\r\nc\r\n", "b", "x\ny") == "a\r\nx\r\ny\r\nc\r\n"
    assert replace_lines("a\r\nb\r\nc\n", "c", "x") == "a\r\nb\r\nx\r\n"
    assert replace_lines("a\rb\nc\n", "c", "x") == "a\rb\nx\n"


def test_a_file_without_a_final_line_end_stays_without_one() -> None:
    assert replace_lines("a\nb", "b", "x\ny") == "a\nx\ny"
    assert replace_lines("a\nb", "a", "x") == "x\nb"


def test_trailing_white_space_does_not_matter() -> None:
    assert replace_lines("a  \nb\n", "a\nb ", "x") == "x\n"


def test_one_indentation_for_all_lines_does_not_matter() -> None:
    before = "class A:\n    def f(self):\n\n        return 1\n"
    assert replace_lines(before, "def f(self):\n\n    return 1", "def f(self):\n    return 2") == (
        "class A:\n    def f(self):\n        return 2\n"
    )
    assert replace_lines(
        "def f():\n\treturn 1\n", "    def f():\n    \treturn 1", "    def g():\n    \treturn 2"
    ) == ("def g():\n\treturn 2\n")
    assert "not in the file" in objection(before, "def f(self):\n\n  return 1").reason


def test_an_exact_match_comes_before_a_similar_one() -> None:
    assert replace_lines("  a\na\na \n", "a", "x") == "  a\nx\na \n"


def test_an_ambiguous_search_is_an_error_with_the_line_numbers() -> None:
    unfit = objection("a\nb\na\nb\n", "a\nb")
    assert "2 times" in unfit.reason
    assert "lines 1, 3" in unfit.advice
    assert "3 times" in objection("a\na\na\na\n", "a\na").reason, "occurrences may overlap"


def test_a_search_without_a_match_is_an_error_with_the_closest_lines() -> None:
    before = "import os\n\ndef area(x):\n    y = x * 2\n    return y\n"
    assert (
        "def area(x):\n    y = x * 2\n    return y"
        in objection(before, "def area(x):\n    y = 3\n    return y").quotation
    )
    assert "def area(x):" in objection(before, "def areas(x):").quotation
    assert "exactly as the file has them" in objection(before, "?????").advice


def test_an_empty_search_makes_a_new_file_and_nothing_else() -> None:
    assert replace_lines(None, "", "a\nb") == "a\nb\n"
    assert replace_lines("", "", "a") == "a\n"
    assert "the file exists" in objection("b\n", "").reason
    assert "no such file" in objection(None, "b").reason


@given(st.text(alphabet="ab \t\r\n\x0c\u2028ä"))
def test_splitting_a_text_into_lines_loses_nothing(text: str) -> None:
    assert str(FileLines.of(text)) == text


@given(st.lists(st.sampled_from(["a", "b", " a", "", "c"]), max_size=8), st.integers(0, 7), st.integers(1, 4))
def test_a_block_replaces_only_its_lines_or_gives_a_reason(lines: list[str], start: int, count: int) -> None:
    before = "".join(f"{line}\n" for line in lines)
    search = tuple(lines[start : start + count]) or ("zzz",)
    try:
        after = Block("a", search, ("NEW",)).apply(before)
    except ProposalFault:
        return
    assert after == "".join(f"{line}\n" for line in [*lines[:start], "NEW", *lines[start + count :]])


def test_a_long_search_in_a_long_file_is_fast() -> None:
    before = "x\n" * 50_000
    assert "not in the file" in objection(before, "x\n" * 25_000 + "y").reason
    assert "100 times" in objection(before, "x\n" * 20_000 + "x").reason
