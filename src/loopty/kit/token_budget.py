"""The most of a text that fits into so many tokens."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from loopty.kit.fence import fence_text, shorten
from loopty.kit.token_count import tokens

Count = Callable[[str], int]

_MIN_TOKENS = 64
"""A fence in fewer tokens would hold next to nothing."""


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


def fence_to_budget(label: str, text: str, limit_tokens: int, *, clean: bool = False) -> str:
    """The fenced text within a token budget; "" when the text is empty or the budget is too small.

    `clean`: each line of the text is already scrubbed.
    """
    if limit_tokens < _MIN_TOKENS or not text.strip():
        return ""
    return longest_that_fits(lambda limit: fence_text(label, text, limit, exact=clean), len(text), limit_tokens)


def lines_within(lines: Iterable[str], limit_tokens: int) -> list[str]:
    """The first lines that fit into a token budget."""
    kept: list[str] = []
    for line in lines:
        limit_tokens -= line_tokens(line)
        if limit_tokens < 0:
            break
        kept.append(line)
    return kept


@functools.lru_cache(maxsize=1024)  # the same lines appear in prompt after prompt
def line_tokens(line: str) -> int:
    """Tokens of a line, its line end included."""
    return tokens(line) + 1
