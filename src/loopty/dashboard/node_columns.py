"""Every node of a run as columns, in the order of the experiments: small enough to keep, quick to count."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

from loopty.dashboard.block_rows import BlockRows, shown_score
from loopty.dashboard.marks import OPEN, POOLS, mark_of
from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.record.history import History
from loopty.views.rated_nodes import RatedBlock, RatedNode

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
        """Whether the node is one of the search: no control, and no past version."""
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
        """The ids of the nodes at these places."""
        found = history.nodes_of_handles([self.handles[place] for place in places])
        return {place: found[self.handles[place]] for place in places if self.handles[place] in found}

    def places_with(self, mark: int) -> list[int]:
        """The places of all nodes with this mark, oldest first."""
        is_it = bytes(mark) + b"\1" + bytes(255 - mark)
        return list(compress(range(len(self.marks)), self.marks.translate(is_it)))
