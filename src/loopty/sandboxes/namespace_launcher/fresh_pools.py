"""Uses up the free blocks in pages that a warm process shares with its copies.

Python would put a copy's new objects there, a few into each page, and the kernel copies every one of these pages.
"""

# For Python 3.9 and newer.
from __future__ import annotations

import sys

_POOL_BYTES = 1 << 14 if sys.version_info >= (3, 10) else 1 << 12
_POOL_HEAD = 48
_SIZES = range(16, 513, 16)
_BYTES_HEAD = 33
_MOST_POOLS = 64


def use_up_free_blocks() -> list[object]:
    """Make objects of each small size until they come from an unused pool; keep them as long as the process."""
    made: list[object] = []
    for size in _SIZES:
        blocks = (_POOL_BYTES - _POOL_HEAD) // size
        in_a_row, before = 0, 0
        for number in range(_MOST_POOLS * blocks):
            one = _object_of(size, number)
            made.append(one)
            place = id(one)
            if place % _POOL_BYTES == _POOL_HEAD:
                in_a_row = 1
            else:
                in_a_row = in_a_row + 1 if in_a_row and place == before + size else 0
            before = place
            if in_a_row == blocks:
                break  # a whole pool was empty, so there was no other one with a free block
    return made


def _object_of(size: int, number: int) -> object:
    """A new object that takes a block of this size."""
    if size < _BYTES_HEAD:
        return object() if size == 16 else (1 << 40) + number
    return bytes(size - _BYTES_HEAD)
