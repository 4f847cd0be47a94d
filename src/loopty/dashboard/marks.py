"""How a node is drawn: one mark for each, from what is known about it."""

from __future__ import annotations

import math
from typing import Any

from loopty.domain.outcome import Ending, Verdict
from loopty.domain.pool import SEARCH_POOLS, Pool
from loopty.views.rated_nodes import RatedKind, RatedNode

MARKS = ("kept", "discarded", "inconclusive", "pruned", "failed", "rejected", "held", "control", "version", "open")
KEPT, HELD, CONTROL, VERSION, OPEN = map(MARKS.index, ("kept", "held", "control", "version", "open"))
BRANCHES = (KEPT, VERSION)
"""Nodes that the tree shows by themselves, as others descend from them."""
WITHOUT_SCORE = tuple(MARKS.index(name) for name in ("pruned", "failed", "rejected"))
POOLS = {pool: place for place, pool in enumerate(SEARCH_POOLS)}
"""The place of each pool whose nodes are drawn."""
_VERDICTS: dict[str, int] = {name.value: MARKS.index(name.value) for name in Verdict if name.value in MARKS}


def mark_of(node: RatedNode) -> int:
    """The place of the node's mark in MARKS."""
    return mark_of_kind(node.kind, has_score(node.score))


def has_score(score: float | None) -> bool:
    return score is not None and math.isfinite(score)


def mark_of_kind(kind: RatedKind, is_scored: bool) -> int:
    """The mark of all nodes of this kind with a score, or of those without."""
    if kind.verdict is None:
        return OPEN
    if kind.verdict == Verdict.HELD:
        return HELD
    if not is_scored:
        if kind.ending == Ending.PRUNED:
            return MARKS.index("pruned")
        return MARKS.index("rejected" if kind.verdict == Verdict.REJECTED else "failed")
    if kind.pool is Pool.CONTROL and not kind.is_baseline:
        return CONTROL
    if kind.pool is Pool.VERSION:
        return VERSION
    return _VERDICTS.get(kind.verdict, MARKS.index("failed"))


def counts_by_mark(counts: Any) -> dict[str, int]:
    """Counts by the place of the mark, under the marks' names; marks without nodes are there, too."""
    return {name: counts.get(place, 0) for place, name in enumerate(MARKS)}
