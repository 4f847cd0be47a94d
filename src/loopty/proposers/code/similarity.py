"""How similar changes are, by vectors of one source: embeddings of a model or, without a model, n-grams.

Vectors of different sources are never compared with each other.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import zlib
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from operator import mul

from loopty.domain.ids import NodeId
from loopty.kit.dataclass import dataclass

_MAX_CACHED = 1024
_RUN_LENGTH = 4
_BUCKETS = 512
_MAX_CHARACTERS = 100_000

Vector = Sequence[float]
Embed = Callable[[Sequence[str]], Awaitable[Sequence[Vector] | None]]
"""A vector for each text; None while they are unavailable."""

ChangeTexts = Sequence[str]
"""The texts of a change. Two changes are as similar as their least similar pair of texts."""


@dataclass(frozen=True, slots=True, order=True)
class ClosestNode:
    """The node with the most similar change; a similarity of 1 means equal."""

    similarity: float
    node: NodeId


class Similarity:
    """Compares changes; asks for the vector of each text once."""

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._vectors: dict[str, Vector] = {}
        self._lock = asyncio.Lock()

    async def closest(self, change: ChangeTexts, others: Mapping[NodeId, ChangeTexts]) -> ClosestNode | None:
        """The node among `others` with the most similar change; None while vectors are unavailable."""
        own = [*map(_digest, change)]
        digests = {node: [*map(_digest, parts)] for node, parts in others.items()}
        texts = dict(zip(own, change, strict=True))
        for node, parts in others.items():
            texts |= zip(digests[node], parts, strict=True)
        async with self._lock:  # otherwise parallel questions would ask, and pay, for the same siblings
            vectors = await self._vectors_of(texts)
        if vectors is None:
            return None
        if len({len(vector) for vector in vectors.values()}) > 1:
            # Another model answers under the same name: the earlier vectors are useless.
            self._vectors.clear()
            return None

        def similarity(one: str, other: str) -> float:
            return 1.0 if one == other else cosine(vectors[one], vectors[other])

        return max(ClosestNode(min(map(similarity, own, parts)), node) for node, parts in digests.items())

    async def _vectors_of(self, texts: Mapping[str, str]) -> dict[str, Vector] | None:
        """The vectors of the texts by digest; None while missing ones are unavailable."""
        known = {digest: self._vectors[digest] for digest in texts if digest in self._vectors}
        if unknown := [digest for digest in texts if digest not in known]:
            vectors = await self._embed([texts[digest] for digest in unknown])
            if vectors is None:
                return None
            known |= zip(unknown, (array("d", vector) for vector in vectors), strict=True)
            self._cache_vectors(known)
        return known

    def _cache_vectors(self, vectors: Mapping[str, Vector]) -> None:
        self._vectors |= vectors
        while len(self._vectors) > _MAX_CACHED:
            del self._vectors[next(iter(self._vectors))]


async def ngram_vectors(texts: Sequence[str]) -> list[Vector]:
    """A vector of length 1 for each text, of how often each run of four characters occurs; ignores white space.

    The runs are hashed into a fixed number of buckets.
    """
    return [_vector("".join(text.split())[:_MAX_CHARACTERS]) for text in texts]


def cosine(one: Vector, other: Vector) -> float:
    """The cosine of the angle between two vectors: 1 means the same direction."""
    lengths = math.sqrt(sum(map(mul, one, one)) * sum(map(mul, other, other)))
    return sum(map(mul, one, other)) / lengths if lengths else 0.0


def _vector(text: str) -> Vector:
    runs = Counter(text[at : at + _RUN_LENGTH] for at in range(max(len(text) - _RUN_LENGTH + 1, 1)))
    vector = [0.0] * _BUCKETS
    for run, count in runs.items():
        # The root, so that one line repeated often does not outweigh the others. crc32: the same in every process.
        hashed = zlib.crc32(run.encode(errors="replace"))
        # With either sign: otherwise any two long texts would look similar.
        vector[hashed % _BUCKETS] += math.sqrt(count) * (1 if hashed & 0x8000_0000 else -1)
    length = math.sqrt(sum(map(mul, vector, vector)))
    return [value / length for value in vector] if length else vector


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
