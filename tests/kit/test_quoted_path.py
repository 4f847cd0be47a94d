"""Paths in URLs, quoted as the standard library does it."""

from __future__ import annotations

from urllib.parse import quote, unquote

from hypothesis import given
from hypothesis import strategies as st

from loopty.kit.paths import quote_path, unquote_path


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.text("/ab.%-~ 2F+"))
def test_a_path_is_quoted_as_by_the_standard_library_and_comes_back(path: str) -> None:
    assert quote_path(path) == quote(path)
    assert unquote_path(quote_path(path)) == path
    assert unquote_path(path) == unquote(path)
