"""Every node of a run as columns, with a mark for each: small enough to keep, quick to count."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

from loopty.domain.ids import NodeId
from loopty.domain.trial import SEARCH_POOLS, Ending, Pool, Verdict
from loopty.record.history import History
from loopty.record.node_facts import FactsBlock
from loopty.show.rated_nodes import RatedBlock, RatedKind, RatedNode

MARKS = ("kept", "discarded", "inconclusive", "pruned", "failed", "rejected", "held", "control", "version", "open")
KEPT, HELD, CONTROL, VERSION, OPEN = map(MARKS.index, ("kept", "held", "control", "version", "open"))
BRANCHES = (KEPT, VERSION)
"""Nodes that the tree shows by themselves, as others descend from them."""
WITHOUT_SCORE = tuple(MARKS.index(name) for name in ("pruned", "failed", "rejected"))
POOLS = {pool: place for place, pool in enumerate(SEARCH_POOLS)}
"""The place of each pool whose nodes are drawn."""
_VERDICTS: dict[str, int] = {name.value: MARKS.index(name.value) for name in Verdict if name.value in MARKS}


def mark_of(node: RatedNode) -> int:
    """Return the place of the node's mark in MARKS."""
    return mark_of_kind(node.kind, has_score(node.score))


def has_score(score: float | None) -> bool:
    return score is not None and math.isfinite(score)


def mark_of_kind(kind: RatedKind, is_scored: bool) -> int:
    """Return the mark of all nodes of this kind with a score, or of those without."""
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
    """Count nodes by the place of the mark, under the marks' names; marks without nodes are there, too."""
    return {name: counts.get(place, 0) for place, name in enumerate(MARKS)}


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
    """Return the score; NaN if there is none; a held node shows its own."""
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
        """Return order, handle, mark, place of the pool, and score of each node."""
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


_LONGEST_SUMMARY = 200


class NodeColumns:
    """The nodes of one run; a node's place is its order less one."""

    def __init__(self) -> None:
        self.handles = array("q")
        self.scores = array("d")
        """Under the run's present fingerprint; NaN where there is none. That of a held node is its own."""
        self.marks = bytearray()
        self.pools = bytearray()
        """The places of their pools in POOLS."""
        self.times = array("d")
        """When nodes were added; 0 until their details are known."""
        self.parents = array("q")
        """The places of the parents; -1 for the baseline and until details are known."""
        self.seconds = array("d")
        """How long the first trials took."""
        self.operators = array("q")
        self.summaries: list[str] = []
        self.operator_names: list[str] = []
        self.counts: Counter[int] = Counter()
        """How many nodes have each mark."""
        self.detailed = 0
        """How many nodes, from the first on, have details."""
        self._operator_places: dict[str, int] = {}
        self._places: dict[int, int] = {}
        """By the hash of the id: ids of deep trees are long."""

    def __len__(self) -> int:
        return len(self.handles)

    def fill(self, blocks: Iterable[RatedBlock]) -> None:
        """Take in all nodes of a run at once, where none is known yet."""
        rows = BlockRows()
        for block in blocks:
            rows.add(block)
        count = len(rows.orders)
        if rows.orders != list(range(1, count + 1)):
            for row in rows.by_order:
                self._set(*row)
            return
        self.handles, self.scores = array("q", rows.handles), array("d", rows.scores)
        self.marks, self.pools, self.counts = rows.marks, rows.pools, Counter(rows.marks)
        self.times, self.seconds = array("d", bytes(8 * count)), array("d", bytes(8 * count))
        self.parents, self.operators = array("q", [-1]) * count, array("q", [-1]) * count
        self.summaries = [""] * count

    def put(self, node: RatedNode) -> int:
        """Take in what is known about a node; returns its place."""
        return self._set(node.order, node.handle, mark_of(node), POOLS[node.kind.pool], shown_score(node))

    def _set(self, order: int, handle: int, mark: int, pool: int, score: float) -> int:
        place = order - 1
        while len(self.handles) <= place:
            self._grow()
        self.counts[self.marks[place]] -= 1
        self.counts[mark] += 1
        self.handles[place], self.marks[place] = handle, mark
        self.pools[place], self.scores[place] = pool, score
        return place

    def _grow(self) -> None:
        self.handles.append(self.handles[-1] + 1 if self.handles else 1)
        self.marks.append(OPEN)
        self.pools.append(POOLS[Pool.ATTEMPT])
        self.counts[OPEN] += 1
        for column, value in ((self.scores, math.nan), (self.times, 0.0), (self.seconds, 0.0)):
            column.append(value)
        self.parents.append(-1)
        self.operators.append(-1)
        self.summaries.append("")

    def put_details(self, place: int, page: Mapping[str, Any]) -> None:
        """Take in what only the node's page says."""
        node = str(page["id"])
        above = node.rpartition(".")[0]
        self._places[hash(node)] = place
        self.parents[place] = self._places.get(hash(above), -1) if above else -1
        self.times[place] = float(page.get("added_at", 0.0))
        self.operators[place] = self._operator(str(page.get("operator", "")))
        self.summaries[place] = str(page.get("summary", ""))[:_LONGEST_SUMMARY]
        self.seconds[place] = float((page.get("outcome") or {}).get("seconds", 0.0))

    def _operator(self, name: str) -> int:
        if name not in self._operator_places:
            self._operator_places[name] = len(self.operator_names)
            self.operator_names.append(name)
        return self._operator_places[name]

    def operator(self, place: int) -> str:
        known = self.operators[place]
        return self.operator_names[known] if known >= 0 else ""

    def is_attempt(self, place: int) -> bool:
        """Say whether the node is one of the search: no control, and no past version."""
        return self.pools[place] == POOLS[Pool.ATTEMPT]

    def score(self, place: int) -> float | None:
        score = self.scores[place]
        return None if math.isnan(score) else score

    def place_of_handle(self, handle: int) -> int | None:
        place = bisect_left(self.handles, handle)
        return place if place < len(self.handles) and self.handles[place] == handle else None

    def place_of(self, node: str) -> int | None:
        return self._places.get(hash(node))

    def ids(self, history: History, places: Sequence[int]) -> dict[int, NodeId]:
        """Return the ids of the nodes at these places."""
        found = history.nodes_of_handles([self.handles[place] for place in places])
        return {place: found[self.handles[place]] for place in places if self.handles[place] in found}

    def places_with(self, mark: int) -> list[int]:
        """List the places of all nodes with this mark, oldest first."""
        is_it = bytes(mark) + b"\1" + bytes(255 - mark)
        return list(compress(range(len(self.marks)), self.marks.translate(is_it)))
