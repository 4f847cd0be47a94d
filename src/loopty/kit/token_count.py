"""How many tokens a text is, about: the one estimate that all of loopty uses."""

from __future__ import annotations

import re

_BYTES_PER_TOKEN = 4
_PIECES = re.compile(rb"[A-Z]?[a-z]{1,4}|[A-Z]| {2,}|\t+|\n+|[^A-Za-z ]")
"""What common tokenisers have a token for, or more: pieces of words, digits, signs, runs of white space."""


def tokens(text: str) -> int:
    return tokens_for_bytes(byte_size(text))


def tokens_for_bytes(count: int) -> int:
    """A quarter of so many bytes, rounded up: what common tokenisers make of English and code."""
    return -(-count // _BYTES_PER_TOKEN)


def tokens_of_data(text: str) -> int:
    """The same of what others wrote, looked at closely: tables of numbers have four times the tokens of prose."""
    return max(tokens(text), len(_PIECES.findall(text.encode("utf-8", "surrogatepass"))))


def byte_size(text: str) -> int:
    """Its bytes: the most tokens that it can be, as no token is shorter than a byte."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
