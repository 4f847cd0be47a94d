"""Cut a text to a token budget."""

from __future__ import annotations

from collections.abc import Callable

from loopty.kit.fence import shorten
from loopty.kit.token_count import tokens

Count = Callable[[str], int]


def cut_to(text: str, limit_tokens: int, count_tokens: Count = tokens) -> str:
    """The text, shortened to at most `limit_tokens` tokens, without a fence."""
    return longest_that_fits(lambda limit_chars: shorten(text, limit_chars), len(text), limit_tokens, count_tokens)


def longest_that_fits(
    render: Callable[[int], str], length: int, limit_tokens: int, count_tokens: Count = tokens
) -> str:
    """The longest `render(limit_chars)` of a text of this length within `limit_tokens` tokens.

    Empty when not even the shortest fits.
    """
    limit_chars = 4 * limit_tokens
    while limit_chars > 0:
        text = render(limit_chars)
        if (used := count_tokens(text)) <= limit_tokens:
            return text
        limit_chars = (
            min(length, limit_chars) * limit_tokens // used - 8
        )  # the fence and letters of several bytes need room, too
    return ""
