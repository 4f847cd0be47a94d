"""Unified diffs as models write them."""

from __future__ import annotations

import contextlib
import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopty.proposers.code.reply_edits import Patch, ProposalFault, Removal, parse_diff

BEFORE = "one\ntwo\nthree\nfour\nfive\n"


def apply_diff(diff: str, before: str | None = BEFORE, known: tuple[str, ...] = ("a.py",)) -> str | None:
    (patch,) = parse_diff(diff.split("\n"), known)
    assert patch.path == "a.py"
    return patch.apply(before)


def objection(diff: str, before: str | None = BEFORE) -> str:
    with pytest.raises(ProposalFault) as caught:
        apply_diff(diff, before)
    return caught.value.reason


def hunk(body: str, head: str = "@@ -2,3 +2,3 @@") -> str:
    return f"--- a/a.py\n+++ b/a.py\n{head}\n{body}"


def test_a_hunk_matches_by_its_lines_not_by_its_header() -> None:
    for head in ("@@ -2,3 +2,3 @@", "@@ -99,1 +1,77 @@ def f():", "@@ ... @@", "@@"):
        assert apply_diff(hunk(" two\n-three\n+3\n four\n", head)) == "one\ntwo\n3\nfour\nfive\n"


def test_context_keeps_the_white_space_of_the_file() -> None:
    before = "first line  \ntwo\nthird line\t\n"
    assert apply_diff(hunk(" first line\n-two\n+2\n third line\n"), before) == "first line  \n2\nthird line\t\n"


def test_git_headers_and_prefixes_are_understood() -> None:
    diff = "diff --git a/a.py b/a.py\nindex 123..456 100644\n" + hunk("-one\n+1\n", "@@ -1 +1 @@")
    assert apply_diff(diff) == "1\ntwo\nthree\nfour\nfive\n"
    assert apply_diff("--- a.py\t2020-01-01\n+++ a.py\t2020-01-02\n@@ -1 +1 @@\n-one\n+1") is not None
    (patch,) = parse_diff(["--- a/b.py", "+++ a/b.py", "@@ -1 +1 @@", "-x", "+y"], {"a/b.py"})
    assert patch.path == "a/b.py"


def test_a_diff_adds_and_deletes_files() -> None:
    assert apply_diff("--- /dev/null\n+++ b/a.py\n@@ -0,0 +1,2 @@\n+x\n+y\n", None) == "x\ny\n"
    assert parse_diff(["--- a/a.py", "+++ /dev/null", "@@ -1 +0,0 @@", "-x"], ()) == [Removal("a.py")]
    assert "it exists" in objection("--- /dev/null\n+++ b/a.py\n@@ -0,0 +1 @@\n+x\n")
    assert "no such file" in objection(hunk("-one\n+1"), None)


def test_of_several_matches_the_nearest_to_the_line_number_counts() -> None:
    before = "x\na\nx\nb\nx\nc\n"
    assert apply_diff(hunk("-x\n+X", "@@ -3 +3 @@"), before) == "x\na\nX\nb\nx\nc\n"
    assert "3 times" in objection(hunk("-x\n+X", "@@"), before)
    assert "3 times" in objection(hunk("-x\n+X", "@@ -2 +2 @@"), before), "two places are as near"


def test_later_hunks_match_where_earlier_ones_have_moved_them() -> None:
    before = "a\nx\nb\nx\nc\nx\n"
    diff = hunk("-a\n+a\n+a\n+a\n", "@@ -1 +1,3 @@") + "@@ -4 +6 @@\n-x\n+X\n"
    assert apply_diff(diff, before) == "a\na\na\nx\nb\nX\nc\nx\n"


def test_line_ends_and_the_end_of_the_file_stay() -> None:
    assert apply_diff(hunk("-two\n+2\n"), "one\r\ntwo\r\n") == "one\r\n2\r\n"
    assert apply_diff(hunk("-two\n\\ No newline at end of file\n+2\n"), "one\ntwo") == "one\n2"


def test_an_empty_line_may_lack_its_space_and_empty_lines_at_the_end_do_not_count() -> None:
    assert apply_diff(hunk(" one\n\n-two\n+2\n\n"), "one\n\ntwo\n") == "one\n\n2\n"


def test_a_line_that_looks_like_a_header_is_still_a_line() -> None:
    assert apply_diff(hunk("--- comment\n+-- note\n"), "-- comment\nselect\n") == "-- note\nselect\n"


@pytest.mark.parametrize(
    ("diff", "reason"),
    [
        (hunk(" two\nthree\n"), "none of space, + and -"),
        ("--- a/a.py\n+++ b/b.py\n@@ -1 +1 @@\n-one\n+1", "renames"),
        ("--- a/a.py\n+++ b/a.py\n", "without a hunk"),
        ("@@ -1 +1 @@\n-one\n+1", "belongs to no file"),
        (hunk("+new\n"), "no line of the file"),
        (hunk("-zwei\n+2\n"), "not in the file: zwei"),
    ],
)
def test_a_wrong_diff_gives_its_fault(diff: str, reason: str) -> None:
    assert reason in objection(diff)


LINES = st.lists(st.sampled_from(["a", "b", "c", "", " x", "-y", "+z", "--- q"]), max_size=12)


@given(LINES, LINES)
def test_diffs_of_other_tools_apply_correctly(old: list[str], new: list[str]) -> None:
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    diff = [
        line.rstrip("\n")
        for line in difflib.unified_diff(
            before.split("\n")[:-1], after.split("\n")[:-1], "a/f", "b/f", n=20, lineterm=""
        )
    ]
    if diff and old:
        (patch,) = parse_diff(diff, {"f"})
        assert isinstance(patch, Patch)
        assert patch.apply(before) == after


@given(
    st.lists(
        st.sampled_from(["--- a/f", "+++ b/f", "@@ -1 +1 @@", "@@", "-a", "+a", " a", "", "a", "+++ /dev/null"])
    )
)
def test_every_diff_gives_a_change_or_a_reason(lines: list[str]) -> None:
    with contextlib.suppress(ProposalFault):
        for patch in parse_diff(lines, {"f"}):
            patch.apply("a\nb\n")
