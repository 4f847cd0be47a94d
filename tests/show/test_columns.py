"""How many columns a text takes."""

from __future__ import annotations

import re

from loopty.show import terminal


def test_letters_that_are_not_looked_up_take_one_column() -> None:
    plain = [chr(code) for code in range(0x10000) if not re.search(terminal._ODD, chr(code))]
    assert {"a", "é", "→", "…", "│", "●"} <= set(plain)
    assert {terminal._letter_width(letter) for letter in plain} == {1}


def test_wide_and_combining_letters_are_counted_as_they_are_shown() -> None:
    assert terminal.width("数→a") == 4
    assert terminal.width("e\u0301→") == 2


def test_format_characters_are_left_out_also_of_text_that_is_not_ascii() -> None:
    assert terminal.printable_line("é\u202e→\x1bx\ty") == "é→x y"
