"""Patterns that are compiled at their first use."""

import re

from loopty.kit.later_pattern import later_pattern


def test_a_later_pattern_has_the_methods_of_a_compiled_one() -> None:
    pattern = later_pattern(r"(a+)b", re.IGNORECASE)
    assert pattern.fullmatch("AAb")
    assert pattern.sub("-", "xabx") == "x-x"
    assert (pattern.pattern, pattern.groups) == ("(a+)b", 1)
