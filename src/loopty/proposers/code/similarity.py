"""How alike changes are, by vectors that all come from one source: those of another say nothing about them."""

from __future__ import annotations

import asyncio
import hashlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loopty.domain.ids import NodeId
from loopty.proposers.code.ngrams import Embed, Vector, cosine

_MAX_CACHED = 1024

ChangeTexts = Sequence[str]
"""The texts that a change is made of: as alike as the two are that differ most."""


@dataclass(frozen=True, slots=True, order=True)
class ClosestNode:
    """The node whose change is most like another; 1 is equal."""

    similarity: float
    node: NodeId


class Similarity:
    """Asks for the vector of each text once."""

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self._vectors: dict[str, Vector] = {}
        self._lock = asyncio.Lock()

    async def closest(self, change: ChangeTexts, others: Mapping[NodeId, ChangeTexts]) -> ClosestNode | None:
        """Among the changes of some nodes; None where their vectors cannot be had now."""
        own = [*map(_digest, change)]
        digests = {node: [*map(_digest, parts)] for node, parts in others.items()}
        texts = dict(zip(own, change, strict=True))
        for node, parts in others.items():
            texts |= zip(digests[node], parts, strict=True)
        async with self._lock:  # else those who wait would ask for the same siblings, and pay for them
            known = await self._vectors_of(texts)
        if known is None:
            return None
        if len({len(vector) for vector in known.values()}) > 1:
            # The model was replaced behind its name: what it gave before is of no more use.
            self._vectors.clear()
            return None

        def similarity(one: str, other: str) -> float:
            return 1.0 if one == other else cosine(known[one], known[other])

        return max(ClosestNode(min(map(similarity, own, parts)), node) for node, parts in digests.items())

    async def _vectors_of(self, texts: Mapping[str, str]) -> dict[str, Vector] | None:
        """The vectors of texts by their digests; None where those that are missing cannot be had now."""
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


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
