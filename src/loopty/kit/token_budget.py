"""Cut a text to a token budget."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from loopty.kit.fence import fence_text, shorten
from loopty.kit.token_count import tokens

Count = Callable[[str], int]

_MIN_TOKENS = 64
"""A fence in fewer tokens would hold next to nothing."""


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
        # Minus a few, because the fence and letters of several bytes need tokens, too.
        limit_chars = min(length, limit_chars) * limit_tokens // used - 8
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


@functools.lru_cache(maxsize=4096)  # the same lines appear in prompt after prompt
def line_tokens(line: str) -> int:
    """Tokens of a line, its line end included."""
    return tokens(line) + 1
