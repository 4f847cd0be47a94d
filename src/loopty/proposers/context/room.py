"""Texts that keep within a number of tokens."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from loopty.kit.fence import fenced, shortened
from loopty.kit.tokens import tokens

_LEAST = 64
"""A fence in fewer tokens would hold next to nothing."""


def in_room(label: str, text: str, room: int, *, clean: bool = False) -> str:
    """The text fenced, in at most so many tokens; nothing where it is empty or there is no room.

    `clean`: each line of it was scrubbed already.
    """
    if room < _LEAST or not text.strip():
        return ""
    return _largest(lambda limit: fenced(label, text, limit, exact=clean), len(text), room)


def cut_to(text: str, room: int) -> str:
    """What the user or loopty itself wrote, in at most so many tokens."""
    return _largest(lambda limit: shortened(text, limit), len(text), room)


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


def _largest(made: Callable[[int], str], length: int, room: int) -> str:
    """What is made of the text with a limit of characters that keeps it in its room."""
    limit = 4 * room
    while limit > 0:
        text = made(limit)
        if (taken := tokens(text)) <= room:
            return text
        limit = min(length, limit) * room // taken - 8  # the fence takes room, and letters of several bytes
    return ""
