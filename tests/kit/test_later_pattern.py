"""Patterns that are compiled at their first use."""

import re

import pytest

from loopty.kit.later_pattern import compile_patterns, later_pattern


def test_a_later_pattern_has_the_methods_of_a_compiled_one() -> None:
    pattern = later_pattern(r"(a+)b", re.IGNORECASE)
    assert pattern.fullmatch("AAb")
    assert pattern.sub("-", "xabx") == "x-x"
    assert (pattern.pattern, pattern.groups) == ("(a+)b", 1)


def test_all_patterns_can_be_compiled_before_their_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopty.kit.later_pattern._PATTERNS", [])  # those of loopty stay as they are
    good, wrong = later_pattern("x"), later_pattern("(")
    with pytest.raises(re.error):
        compile_patterns()
    assert "search" in vars(good)
    with pytest.raises(re.error):
        wrong.search("x")
