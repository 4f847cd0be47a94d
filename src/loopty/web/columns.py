"""Every node of a run as columns, with a mark for each: small enough to keep, quick to draw."""

from __future__ import annotations

import json
import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import compress
from typing import Any

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.trial import SEARCH_POOLS, Ending, Pool, Verdict
from loopty.record.history import History
from loopty.show.rated_nodes import RatedNode, rated_nodes

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
    if node.verdict is None:
        return OPEN
    if node.verdict == Verdict.HELD:
        return HELD
    if node.score is None or not math.isfinite(node.score):
        if node.ending == Ending.PRUNED:
            return MARKS.index("pruned")
        return MARKS.index("rejected" if node.verdict == Verdict.REJECTED else "failed")
    if node.pool is Pool.CONTROL and not node.is_baseline:
        return CONTROL
    if node.pool is Pool.VERSION:
        return VERSION
    return _VERDICTS.get(node.verdict, MARKS.index("failed"))


def counts_by_mark(counts: Any) -> dict[str, int]:
    """Count nodes by the place of the mark, under the marks' names; marks without nodes are there, too."""
    return {name: counts.get(place, 0) for place, name in enumerate(MARKS)}


def shown_score(node: RatedNode) -> float:
    """Return the score; NaN if there is none; a held node shows its own."""
    score = node.own_score if node.verdict == Verdict.HELD else node.score
    return math.nan if score is None else score


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
        """When nodes were added."""
        self.parents = array("q")
        """The places of the parents; -1 for the baseline."""
        self.seconds = array("d")
        """How long the first trials took."""
        self.operators = array("q")
        self.summaries: list[str] = []
        self.operator_names: list[str] = []
        self.counts: Counter[int] = Counter()
        """How many nodes have each mark."""
        self._operator_places: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.handles)

    def fill(self, history: History, run: int) -> None:
        """Take in all nodes of a run."""
        for node in sorted(rated_nodes(history, run).nodes):  # by their orders
            self.put(node)
        for pool in SEARCH_POOLS:
            for handle, parent, added_at, seconds, label in history.labels(run, pool):
                if (place := self.place_of_handle(handle)) is not None:
                    self.put_label(place, parent, added_at, seconds, *json.loads(label))

    def put(self, node: RatedNode) -> int:
        """Take in what is known about a node; returns its place."""
        place, mark = node.order - 1, mark_of(node)
        while len(self.handles) <= place:
            self._grow()
        self.counts[self.marks[place]] -= 1
        self.counts[mark] += 1
        self.handles[place], self.marks[place] = node.handle, mark
        self.pools[place], self.scores[place] = POOLS[node.pool], shown_score(node)
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

    def put_label(
        self, place: int, parent: int, added_at: float, seconds: float, operator: str, summary: str
    ) -> None:
        """Take in what is shown of the node at this place; `parent` is a handle."""
        above = self.place_of_handle(parent)
        self.parents[place] = -1 if above is None else above
        self.times[place], self.seconds[place] = added_at, seconds
        self.operators[place], self.summaries[place] = self._operator(operator), summary

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

    def place_of(self, history: History, node: NodeId) -> int | None:
        """Return the place of the node with this id; None if this run has none."""
        try:
            return self.place_of_handle(history.handle(node))
        except Misuse:
            return None

    def ids(self, history: History, places: Sequence[int]) -> dict[int, NodeId]:
        """Return the ids of the nodes at these places."""
        found = history.nodes_of_handles([self.handles[place] for place in places])
        return {place: found[self.handles[place]] for place in places if self.handles[place] in found}

    def places_with(self, mark: int) -> list[int]:
        """List the places of all nodes with this mark, oldest first."""
        is_it = bytes(mark) + b"\1" + bytes(255 - mark)
        return list(compress(range(len(self.marks)), self.marks.translate(is_it)))
