"""The facts that views ask about every node: a page for each block of nodes, and its line in the tree.

A block is a few columns of plain values: a million nodes are read in a second or two, without their own pages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from loopty.domain.errors import Misuse
from loopty.kit import codec
from loopty.kit.records import Record
from loopty.record.node_record import Node

BLOCK_SIZE = 64
"""Every write of a node rewrites its block: larger blocks make writing dearer, smaller ones reading."""
_SPARE_KINDS = 8
"""Kinds without a node that a block may have: a node changes its kind a few times before its verdict."""
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class FactsKind(NamedTuple):
    """What most nodes have in common with many others."""

    run: int
    pool: str
    verdict: str | None
    ending: str | None
    """How the judging trial ended; None before that."""
    fingerprint: str
    """The one of the outcome."""
    metric: str | None
    """The most important metric when the page was saved, to which the score belongs."""
    repeats: int
    """How often the node and the incumbent beside it were measured again."""
    is_plain: bool
    """Whether this is all: no result under another fingerprint, and no verdict that was taken back."""


class NodeFacts(NamedTuple):
    """The facts of one node."""

    order: int
    score: float | None
    error_rate: float | None
    """Of the comparison in pairs that led to the verdict."""
    judged: int
    """The number of the event that holds the verdict; 0 before that."""
    kind: FactsKind


class FactsBlock(Record):
    """The facts of the nodes with the handles from `first` on, as columns of equal length."""

    first: int
    orders: Sequence[int]
    scores: Sequence[float | None]
    error_rates: Sequence[float | None]
    judged: Sequence[int]
    kinds: Sequence[FactsKind]
    """The kinds that occur."""
    kind_places: Sequence[int]
    """The place of each node's kind among them."""

    @property
    def nodes(self) -> list[NodeFacts]:
        kinds = map(self.kinds.__getitem__, self.kind_places)
        return list(map(NodeFacts, self.orders, self.scores, self.error_rates, self.judged, kinds))

    @property
    def text(self) -> str:
        """Return the block as one line of JSON."""
        rates = {str(place): rate for place, rate in enumerate(self.error_rates) if rate is not None}
        parts = (
            _column_text(self.orders),
            _column_text(self.scores),
            _JSON.encode(rates),
            _column_text(self.judged),
            _JSON.encode(self.kinds),
            _column_text(self.kind_places),
        )
        return f"[{','.join(parts)}]"


def _column_text(numbers: Sequence[float | None]) -> str:
    """Write numbers as JSON, in a fifth of the encoder's time: Python writes them alike."""
    text = str(list(numbers)).replace(" ", "").replace("None", "null")
    if "n" in text and ("nan" in text or "inf" in text):
        raise ValueError("a score is not a finite number")
    return text


def block_number(handle: int) -> int:
    """Return the number of the block that holds the node with this handle."""
    return (handle - 1) // BLOCK_SIZE


def make_block(number: int, nodes: Iterable[NodeFacts]) -> FactsBlock:
    """Make the block with these nodes, in the order of their handles."""
    places: dict[FactsKind, int] = {}
    rows = [(*facts, places.setdefault(kind, len(places))) for *facts, kind in nodes]
    orders, scores, rates, judged, kind_places = zip(*rows, strict=True)
    return FactsBlock(
        first=number * BLOCK_SIZE + 1,
        orders=orders,
        scores=scores,
        error_rates=rates,
        judged=judged,
        kinds=tuple(places),
        kind_places=kind_places,
    )


def with_nodes(number: int, block: FactsBlock | None, changed: Mapping[int, NodeFacts]) -> FactsBlock:
    """Return the block after these nodes were added or changed, by handle."""
    if block is None:
        block = FactsBlock(
            first=number * BLOCK_SIZE + 1,
            orders=(),
            scores=(),
            error_rates=(),
            judged=(),
            kinds=(),
            kind_places=(),
        )
    orders, scores, rates = list(block.orders), list(block.scores), list(block.error_rates)
    judged, kinds, kind_places = list(block.judged), list(block.kinds), list(block.kind_places)
    for handle, (order, score, rate, event, kind) in sorted(changed.items()):
        place = handle - block.first
        if place > len(orders):
            raise _damage(number)
        if kind not in kinds:
            kinds.append(kind)
        orders[place : place + 1] = [order]
        scores[place : place + 1] = [score]
        rates[place : place + 1] = [rate]
        judged[place : place + 1] = [event]
        kind_places[place : place + 1] = [kinds.index(kind)]
    grown = FactsBlock(
        first=block.first,
        orders=orders,
        scores=scores,
        error_rates=rates,
        judged=judged,
        kinds=kinds,
        kind_places=kind_places,
    )
    return grown if len(kinds) <= len(set(kind_places)) + _SPARE_KINDS else make_block(number, grown.nodes)


def read_block(number: int, text: str) -> FactsBlock:
    """Read the block that `text` encodes. Raises Misuse if it is none: the ledger was changed by hand."""
    try:
        orders, scores, rates, judged, kinds, kind_places = json.loads(text)
        error_rates: list[Any] = [None] * len(orders)
        for place, rate in rates.items():
            error_rates[int(place)] = rate
        block = FactsBlock(
            first=number * BLOCK_SIZE + 1,
            orders=orders,
            scores=scores,
            error_rates=error_rates,
            judged=judged,
            kinds=[FactsKind._make(kind) for kind in kinds],
            kind_places=kind_places,
        )
        if not _is_sound(block):
            raise ValueError("columns that do not belong together")
    except (ValueError, TypeError, IndexError, AttributeError) as error:
        raise _damage(number) from error
    return block


def _is_sound(block: FactsBlock) -> bool:
    """Say whether the columns have one length, and values of their types: views compute with them."""
    count, numbers = len(block.orders), {float, int, type(None)}
    return (
        len(block.scores) == len(block.kind_places) == len(block.error_rates) == len(block.judged) == count
        and count <= BLOCK_SIZE
        and {*map(type, block.orders), *map(type, block.judged), *map(type, block.kind_places)} <= {int}
        and {*map(type, block.scores), *map(type, block.error_rates)} <= numbers
        and (not count or (min(block.kind_places) >= 0 and max(block.kind_places) < len(block.kinds)))
        and {*map(type, chain.from_iterable(block.kinds))} <= {int, str, bool, type(None)}
    )


def _damage(number: int) -> Misuse:
    first = number * BLOCK_SIZE + 1
    return Misuse(f"the ledger was changed by hand: what it says about the nodes from #{first} on is damaged")


_RARE = ("edits", "draft", "dropped", "running", "files_removed", "merged", "reopened_for", "withdrawn", "effect")
"""Fields that few nodes have; they are written by name."""


def tree_facts_text(node: Node) -> str:
    """Write the facts as a list: what every node has in its order, then what few nodes have, by name."""
    outcome = node.outcome
    facts: list[Any] = [
        node.handle,
        node.pool,
        node.operator,
        node.summary,
        node.params,
        node.verdict,
        node.against,
        outcome.ending if outcome else None,
        outcome.fingerprint if outcome else "",
        outcome.metrics if outcome else {},
    ]
    rare = {name: value for name in _RARE if (value := getattr(node, name))}
    if node.other_fingerprints:
        rare["has_other_results"] = True
    return codec.text([*facts, rare] if rare else facts)
