"""How many tokens a text is, about: the one estimate that all of loopty uses."""

from __future__ import annotations

_BYTES_PER_TOKEN = 4


def tokens(text: str) -> int:
    return tokens_of(size(text))


def tokens_of(count: int) -> int:
    """A quarter of so many bytes, rounded up: what common tokenisers make of English and code."""
    return -(-count // _BYTES_PER_TOKEN)


def size(text: str) -> int:
    """Its bytes: the most tokens that it can be, as no token is shorter than a byte."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
