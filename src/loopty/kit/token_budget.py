"""The most of a text that fits into so many tokens."""

from __future__ import annotations

from collections.abc import Callable

from loopty.kit.fence import shorten
from loopty.kit.token_count import tokens

Count = Callable[[str], int]


def cut_to(text: str, room: int, counted: Count = tokens) -> str:
    """What needs no fence, in at most so many tokens."""
    return longest_that_fits(lambda limit: shorten(text, limit), len(text), room, counted)


def longest_that_fits(made: Callable[[int], str], length: int, room: int, counted: Count = tokens) -> str:
    """What is made of a text of this length with a limit of characters that keeps it in its room; else nothing."""
    limit = 4 * room
    while limit > 0:
        text = made(limit)
        if (taken := counted(text)) <= room:
            return text
        limit = min(length, limit) * room // taken - 8  # the fence takes room, and letters of several bytes
    return ""
