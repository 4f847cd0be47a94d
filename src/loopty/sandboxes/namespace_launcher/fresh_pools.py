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
_MOST_BATCHES = 32
_TAKEN_MEANWHILE = 4
"""Blocks of a pool that hold what makes the objects."""


def use_up_free_blocks() -> list[list[object]]:
    """Make objects of each small size until they come from an unused pool; keep them as long as the process."""
    made: list[list[object]] = []
    for size in _SIZES:
        blocks = (_POOL_BYTES - _POOL_HEAD) // size
        for _ in range(_MOST_BATCHES):
            made.append(_objects_of(size, 2 * blocks))
            if _has_a_whole_pool(made[-1], blocks):
                break  # it was empty, so there was no other one with a free block
        else:
            return []  # this interpreter takes its memory elsewhere
    return made


def _objects_of(size: int, count: int) -> list[object]:
    """New objects, each of which takes a block of this size."""
    # Without a number for each, which would take a block as well, and leave it.
    if size == 16:
        return [object() for _ in (None,) * count]
    if size == 32:
        return [*map(complex, (1.0,) * count)]
    return [*map(bytes, (size - _BYTES_HEAD,) * count)]


def _has_a_whole_pool(objects: list[object], blocks: int) -> bool:
    in_pools: dict[int, int] = {}
    for one in objects:
        pool = id(one) // _POOL_BYTES
        in_pools[pool] = in_pools.get(pool, 0) + 1
    return max(in_pools.values()) >= blocks - _TAKEN_MEANWHILE
