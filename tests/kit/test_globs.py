"""Globs mean what they mean in a shell: compared with Python's `glob` on real trees."""

from __future__ import annotations

import glob
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopty.kit.paths import matches


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/a.py", False),
        ("src/*", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/**", "src/deep/a.py", True),
        ("src/**", "src", False),
        ("src/**/a.py", "src/a.py", True),
        ("src/**/a.py", "src/x/y/a.py", True),
        ("**/a.py", "a.py", True),
        ("**/a.py", "x/ba.py", False),
        ("src/a**b.py", "src/a/b.py", False),
        ("src/a**b.py", "src/axxb.py", True),
        ("src", "src/deep/a.py", True),
        ("src/", "src/a.py", True),
        ("./src", "src/a.py", True),
        ("sr", "src/a.py", False),
        ("*", "src/deep/a.py", True),
        (".", "src/a.py", True),
        ("./", "a.py", True),
        ("src//a.py", "src/a.py", True),
        ("?.py", "a.py", True),
        ("?.py", "/.py", False),
        ("a?b", "a/b", False),
        ("[ab].py", "b.py", True),
        ("[!ab].py", "b.py", False),
        ("[!ab].py", "c.py", True),
        ("a[!b]c", "a/c", False),
        ("[a-c].py", "b.py", True),
        ("[a-]x", "-x", True),
        ("[]a]x", "]x", True),
        ("[!]a]x", "]x", False),
        ("[^a]x", "^x", True),
        ("[^a]x", "bx", False),
        ("[\\d]x", "5x", False),
        ("[\\d]x", "\\x", True),
        ("[z-a]x", "mx", False),
        ("[!z-a]x", "mx", True),
        ("[--a]x", "Bx", True),
        ("[a&&b]x", "&x", True),
        ("[[a]x", "[x", True),
        ("[abc", "[abc", True),
        ("[", "[", True),
        ("[a/b]", "[a/b]", True),
        ("a.py", "axpy", False),
        ("a+(b)$", "a+(b)$", True),
        ("*", "line\nbreak", True),
        ("src", "src/line\nbreak", True),
        ("a.py", "a.py\n", False),
        ("*.PY", "a.py", False),
        ("ü*", "über", True),
    ],
)
def test_a_glob_names_what_a_shell_would_name(pattern: str, path: str, expected: bool) -> None:
    assert matches(path, [pattern]) is expected


def test_without_patterns_nothing_matches() -> None:
    assert not matches("a", [])


_names = st.text("ab.-]![x", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))
_parts = st.one_of(
    _names, st.just("*"), st.just("**"), st.just("?"), st.sampled_from(["[ab]", "[!a]", "a*", "*b", "[a-b]*"])
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(_names, min_size=1, max_size=3), max_size=6), st.lists(_parts, min_size=1, max_size=3))
def test_a_glob_finds_the_files_that_a_walk_of_the_tree_finds(files: list[list[str]], parts: list[str]) -> None:
    pattern = "/".join(parts)
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        for names in files:
            path = top.joinpath(*names)
            if not any(parent.is_file() for parent in path.parents) and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        there = [path for path in top.rglob("*") if path.is_file()]
        # pathlib's own `**` names directories only.
        named = glob.glob(pattern, root_dir=top, recursive=True, include_hidden=True)  # noqa: PTH207
        # For `a/**` it names `a/` even if that is a file.
        found = {Path(name) for name in named if not name.endswith("/") or (top / name).is_dir()}
        for path in (path.relative_to(top) for path in there):
            # A pattern that names a directory means everything below it.
            assert matches(str(path), [pattern]) == bool(found & {path, *path.parents}), (pattern, path)


@given(st.text("[]!-^&|~\\*?a/z.", max_size=12), st.text("a/z-[]", max_size=8))
def test_no_pattern_raises(pattern: str, path: str) -> None:
    matches(path, [pattern])
