"""The one estimate of tokens that all of loopty uses."""

from __future__ import annotations

import re

_BYTES_PER_TOKEN = 4
_PIECES = re.compile(rb"[A-Z]?[a-z]{1,4}|[A-Z]| {2,}|\t+|\n+|[^A-Za-z ]")
"""Each is one token or less for common tokenisers: pieces of words, digits, signs, runs of white space."""


def tokens(text: str) -> int:
    return tokens_for_bytes(byte_size(text))


def tokens_for_bytes(count: int) -> int:
    """The tokens in this many bytes: a quarter, rounded up, as with common tokenisers for English and code."""
    return -(-count // _BYTES_PER_TOKEN)


def tokens_of_data(text: str) -> int:
    """A closer estimate for text that others wrote: tables of numbers have four times the tokens of prose."""
    return max(tokens(text), len(_PIECES.findall(text.encode("utf-8", "surrogatepass"))))


def byte_size(text: str) -> int:
    """The bytes of a text: the upper bound of its tokens, as no token is shorter than a byte."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
