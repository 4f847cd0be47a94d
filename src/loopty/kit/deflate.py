"""Compresses small contents without the tables for large ones: zeroing those takes most of the time."""

from __future__ import annotations

import zlib

_SMALL = 8 << 10
_WINDOW_BITS = 13
"""A window as large as the largest small content, so that the result is as short as with any other."""
_MEMORY_LEVEL = 6


def deflate(content: bytes, level: int) -> bytes:
    """The content as `zlib.compress` gives it, or as short; `zlib.decompress` and git read either."""
    if len(content) > _SMALL:
        return zlib.compress(content, level)
    small = zlib.compressobj(level, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL)
    return small.compress(content) + small.flush()
