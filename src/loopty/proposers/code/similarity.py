"""How similar changes are, by how often each run of four characters occurs in them."""

from __future__ import annotations

import functools
import math
import zlib
from array import array
from collections import Counter
from collections.abc import Sequence
from operator import mul

_MAX_CACHED = 1024
_RUN_LENGTH = 4
_BUCKETS = 512
_MAX_CHARACTERS = 100_000

Vector = Sequence[float]

ChangeTexts = Sequence[str]
"""The texts of a change."""


def similarity(one: ChangeTexts, other: ChangeTexts) -> float:
    """Two changes are as similar as their least similar pair of texts; 1 means equal."""
    pairs = zip(one, other, strict=True)
    return min(1.0 if a == b else cosine(ngram_vector(a), ngram_vector(b)) for a, b in pairs)


def cosine(one: Vector, other: Vector) -> float:
    """The cosine of the angle between two vectors: 1 means the same direction."""
    lengths = math.sqrt(sum(map(mul, one, one)) * sum(map(mul, other, other)))
    return sum(map(mul, one, other)) / lengths if lengths else 0.0


@functools.lru_cache(_MAX_CACHED)  # each change to a node is compared with all earlier ones
def ngram_vector(text: str) -> Vector:
    """A vector of length 1 of how often each run of four characters occurs; ignores white space.

    The runs are hashed into a fixed number of buckets.
    """
    plain = "".join(text.split())[:_MAX_CHARACTERS]
    runs = Counter(plain[at : at + _RUN_LENGTH] for at in range(max(len(plain) - _RUN_LENGTH + 1, 1)))
    vector = [0.0] * _BUCKETS
    for run, count in runs.items():
        # The root, so that one line repeated often does not outweigh the others. crc32: the same in every process.
        hashed = zlib.crc32(run.encode(errors="replace"))
        # With either sign: otherwise any two long texts would look similar.
        vector[hashed % _BUCKETS] += math.sqrt(count) * (1 if hashed & 0x8000_0000 else -1)
    length = math.sqrt(sum(map(mul, vector, vector)))
    return array("d", [value / length for value in vector] if length else vector)
