"""A change to a file, taken apart, and its parts put elsewhere."""

from __future__ import annotations

import random

import pytest

from loopty.proposers.code.change_parts import change_parts, text_with_part

BEFORE = "a = 1\nb = 2\n\ndef area(x):\n    return x\n\nc = 3\n"


def put(before: str, after: str, index: int, text: str | None = None) -> str | None:
    return text_with_part(change_parts("f", before, after)[index], before, before if text is None else text)


def test_each_line_in_the_place_of_another_is_a_part_and_other_lines_together_are_one() -> None:
    after = "a = 5\nb = 6\n\ndef area(x):\n    y = x\n    return y\n\nc = 3\n"
    assert [(part.before, part.after) for part in change_parts("f", BEFORE, after)] == [
        (("a = 1\n",), ("a = 5\n",)),
        (("b = 2\n",), ("b = 6\n",)),
        (("    return x\n",), ("    y = x\n", "    return y\n")),
    ]


@pytest.mark.parametrize(
    ("after", "index", "expected"),
    [
        (BEFORE.replace("1", "9").replace("3", "8"), 0, BEFORE.replace("1", "9")),
        (BEFORE.replace("1", "9").replace("3", "8"), 1, BEFORE.replace("3", "8")),
        ("import math\n" + BEFORE.replace("3", "8"), 0, "import math\n" + BEFORE),
        (BEFORE.replace("b = 2\n", "").replace("3", "8"), 0, BEFORE.replace("b = 2\n", "")),
        (BEFORE.removesuffix("\n").replace("1", "9"), 1, BEFORE.removesuffix("\n")),
        (BEFORE.replace("1", "9") + "last", 1, BEFORE + "last"),
    ],
)
def test_a_part_by_itself_changes_nothing_else(after: str, index: int, expected: str) -> None:
    assert put(BEFORE, after, index) == expected


def test_a_part_follows_its_lines_where_others_came_before_them() -> None:
    after = BEFORE.replace("1", "9").replace("3", "8")
    assert put(BEFORE, after, 1, "import math\n\n" + BEFORE) == "import math\n\n" + BEFORE.replace("3", "8")
    assert put(BEFORE, after, 1, BEFORE.replace("b = 2\n", "")) == BEFORE.replace("b = 2\n", "").replace("3", "8")


def test_a_part_fits_nowhere_where_its_lines_are_different() -> None:
    after = BEFORE.replace("1", "9").replace("3", "8")
    assert put(BEFORE, after, 1, BEFORE.replace("3", "4")) is None
    assert put(BEFORE, after, 1, "") is None
    inserted = BEFORE.replace("b = 2\n", "b = 2\nb2 = 2\n") + "d = 4\n"
    assert put(BEFORE, inserted, 0, BEFORE.replace("a = 1\nb = 2\n\ndef", "def")) is None


def test_all_parts_together_are_the_change_and_reversed_ones_take_it_back() -> None:
    rng = random.Random(3)
    for _ in range(300):
        before, after = ("".join(rng.choice("aabc\n") for _ in range(rng.randrange(30))) for _ in range(2))
        parts, text = change_parts("f", before, after), before
        for part in reversed(parts):
            text = text_with_part(part, before, text) or ""
        assert text == after
        for part in reversed(parts):
            text = text_with_part(part.reversed, after, text) or ""
        assert text == before


def test_texts_that_differ_in_very_many_lines_are_not_compared() -> None:
    before, after = ("".join(f"{sign}{i}\nsame\n" for i in range(600)) for sign in "ab")
    assert change_parts("f", before, after) == ()
    few = change_parts("f", BEFORE, BEFORE.replace("1", "9"))
    assert text_with_part(few[0], before, after) is None
    long = "x\n" * 5_000
    assert len(change_parts("f", long + BEFORE, long + BEFORE.replace("1", "9"))) == 1
