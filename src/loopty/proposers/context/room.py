"""Texts that keep within a number of tokens."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from loopty.kit.fence import fenced
from loopty.kit.token_budget import largest
from loopty.kit.token_count import tokens

_LEAST = 64
"""A fence in fewer tokens would hold next to nothing."""


def in_room(label: str, text: str, room: int, *, clean: bool = False) -> str:
    """The text fenced, in at most so many tokens; nothing where it is empty or there is no room.

    `clean`: each line of it was scrubbed already.
    """
    if room < _LEAST or not text.strip():
        return ""
    return largest(lambda limit: fenced(label, text, limit, exact=clean), len(text), room)


def fitting(lines: Iterable[str], room: int) -> list[str]:
    """The first lines that fit into so many tokens."""
    kept: list[str] = []
    for line in lines:
        room -= cost(line)
        if room < 0:
            break
        kept.append(line)
    return kept


@functools.lru_cache(maxsize=1024)  # the same lines are told of in briefing after briefing
def cost(line: str) -> int:
    """Tokens of a line in a text of lines."""
    return tokens(line) + 1
