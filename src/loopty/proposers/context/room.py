"""Texts that keep within a number of tokens."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from loopty.kit.fence import fence_text
from loopty.kit.token_budget import longest_that_fits
from loopty.kit.token_count import tokens

_MIN_TOKENS = 64
"""A fence in fewer tokens would hold next to nothing."""


def fence_to_budget(label: str, text: str, limit_tokens: int, *, clean: bool = False) -> str:
    """The text fenced, in at most so many tokens; nothing where it is empty or there is no room.

    `clean`: each line of it was scrubbed already.
    """
    if limit_tokens < _MIN_TOKENS or not text.strip():
        return ""
    return longest_that_fits(lambda limit: fence_text(label, text, limit, exact=clean), len(text), limit_tokens)


def lines_within(lines: Iterable[str], limit_tokens: int) -> list[str]:
    """The first lines that fit into so many tokens."""
    kept: list[str] = []
    for line in lines:
        limit_tokens -= line_tokens(line)
        if limit_tokens < 0:
            break
        kept.append(line)
    return kept


@functools.lru_cache(maxsize=1024)  # the same lines are told of in briefing after briefing
def line_tokens(line: str) -> int:
    """Tokens of a line in a text of lines."""
    return tokens(line) + 1
