"""Texts as vectors without a model: how often each run of four characters is in them, hashed into some buckets."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from operator import mul

Vector = Sequence[float]
Embed = Callable[[Sequence[str]], Awaitable[Sequence[Vector] | None]]
"""A vector for each text; None where they cannot be had now."""

_RUN_LENGTH = 4
_BUCKETS = 512
_MAX_CHARACTERS = 100_000


async def ngram_vectors(texts: Sequence[str]) -> list[Vector]:
    """Vectors of length 1; white space does not count."""
    return [_vector("".join(text.split())[:_MAX_CHARACTERS]) for text in texts]


def cosine(one: Vector, other: Vector) -> float:
    """How alike two vectors are: 1 is the same direction."""
    lengths = math.sqrt(sum(map(mul, one, one)) * sum(map(mul, other, other)))
    return sum(map(mul, one, other)) / lengths if lengths else 0.0


def _vector(text: str) -> Vector:
    runs = Counter(text[at : at + _RUN_LENGTH] for at in range(max(len(text) - _RUN_LENGTH + 1, 1)))
    vector = [0.0] * _BUCKETS
    for run, count in runs.items():
        # The root, so that one line repeated often does not drown the others. crc32: the same in every process.
        hashed = zlib.crc32(run.encode(errors="replace"))
        # By turns to either side: else any two long texts would look alike.
        vector[hashed % _BUCKETS] += math.sqrt(count) * (1 if hashed & 0x8000_0000 else -1)
    length = math.sqrt(sum(map(mul, vector, vector)))
    return [value / length for value in vector] if length else vector
