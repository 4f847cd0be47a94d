"""What every node of a run shows, straight from the blocks of facts: no object is made for a node."""

from __future__ import annotations

import math
from typing import NamedTuple

from loopty.dashboard.marks import POOLS, mark_of, mark_of_kind
from loopty.domain.outcome import Verdict
from loopty.record.node_facts import FactsBlock
from loopty.views.rated_nodes import RatedBlock, RatedKind, RatedNode


class _Look(NamedTuple):
    """What nodes of one kind show."""

    has_score: bool
    marks: tuple[int, int]
    """Of a node without a score, and of one with a score."""
    pool: int


def _look(kind: RatedKind) -> _Look:
    has_score = kind.is_comparable or kind.verdict == Verdict.HELD
    marks = mark_of_kind(kind, is_scored=False), mark_of_kind(kind, is_scored=True)
    return _Look(has_score, marks, POOLS[kind.pool])


def shown_score(node: RatedNode) -> float:
    """NaN where there is none; a held node shows its own."""
    score = node.own_score if node.kind.verdict == Verdict.HELD else node.score
    return math.nan if score is None else score


class BlockRows:
    """The columns of all blocks so far, in the order of the handles."""

    def __init__(self) -> None:
        self.orders: list[int] = []
        self.handles: list[int] = []
        self.scores: list[float] = []
        self.marks = bytearray()
        self.pools = bytearray()
        self._looks: dict[RatedKind, _Look] = {}

    def add(self, block: RatedBlock) -> None:
        if block.nodes is not None:
            for node in block.nodes:
                self._add_node(node)
        else:
            known = self._looks
            self._add_facts(
                block.facts, [known.get(kind) or known.setdefault(kind, _look(kind)) for kind in block.kinds]
            )

    @property
    def by_order(self) -> list[tuple[int, int, int, int, float]]:
        """Order, handle, mark, place of the pool, and score of each node."""
        return sorted(zip(self.orders, self.handles, self.marks, self.pools, self.scores, strict=True))

    def _add_node(self, node: RatedNode) -> None:
        self.orders.append(node.order)
        self.handles.append(node.handle)
        self.scores.append(shown_score(node))
        self.marks.append(mark_of(node))
        self.pools.append(POOLS[node.kind.pool])

    def _add_facts(self, facts: FactsBlock, looks: list[_Look]) -> None:
        places, scores = facts.kind_places, facts.scores
        has_score, marks = [look.has_score for look in looks], [look.marks for look in looks]
        shown = [
            score if score is not None and has_score[place] else math.nan
            for place, score in zip(places, scores, strict=True)
        ]
        self.orders += facts.orders
        self.handles += range(facts.first, facts.first + len(places))
        self.scores += shown
        # A finite number less itself is 0; an infinity or a NaN less itself is not.
        rows = zip(places, shown, strict=True)
        self.marks += bytes([marks[place][score - score == 0] for place, score in rows])
        self.pools += bytes(map([look.pool for look in looks].__getitem__, places))
