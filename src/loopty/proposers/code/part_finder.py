"""Find the part of an earlier change that is most likely to bring something by itself.

Of a good node that the parent descends from, one part is left out; of another good node, one part is taken over.
All parts of a change together did what the change did, so what the measured ones did tells what to expect of the
rest: where a change lost 0.1, and one of its two parts alone loses 0.3, the other one may gain 0.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from loopty.domain.ids import NodeId
from loopty.domain.proposal import Edits
from loopty.engine.protocols import Ask
from loopty.kit.dataclass import Record, dataclass
from loopty.proposers.code.change_parts import ChangePart, change_parts, text_with_part
from loopty.proposers.code.node_texts import TextCache, origin_of
from loopty.proposers.code.partners import best_nodes
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.part_trials import PART, PartTrials
from loopty.views.over_parent import over_parent

ALONE, WITHOUT = f"{PART}:alone", f"{PART}:without"
"""The operators: a part that was taken over, and a change without a part."""
_MOST_PARTS = 16
"""A change with more is a rewrite, whose lines need each other."""
_MOST_FAILURES = 2
"""Parts of a change that failed by themselves: then they need each other."""
_MOST_CACHED = 512


@dataclass(frozen=True, slots=True)
class FoundPart(Record):
    """One part of an earlier change, as a change of the parent."""

    source: Node
    number: int
    """From 1."""
    count: int
    """All parts of the source's change."""
    part: ChangePart
    is_left_out: bool
    edits: Edits
    expected: float
    """What it may gain, by what the whole change and its measured parts did."""


FindPart = Callable[[Ask, Node], FoundPart | None]
"""Finds the next part to try as a change of this node."""
PartFault = Callable[[Ask, Node, Edits], str | None]
"""Why a part, as edits of the parent, is not worth a trial; None where it is."""


@dataclass(frozen=True, slots=True)
class _WholeChange(Record):
    """A change that is taken apart, with what is known of its parts."""

    node: Node
    count: int
    untried: Mapping[int, ChangePart]
    """By index."""
    is_left_out: bool
    expected: float
    """Of each untried part."""


class PartFinder:
    """Reads each change once."""

    def __init__(self, texts: TextCache, fault: PartFault) -> None:
        self._texts = texts
        self._fault = fault
        self._parts: dict[NodeId, tuple[ChangePart, ...]] = {}
        self._edits: dict[tuple[NodeId, NodeId, ChangePart], Edits | None] = {}
        """By parent, source and part: how the parent would change, or None where that is not worth a trial."""

    def find(self, ask: Ask, parent: Node) -> FoundPart | None:
        """The most promising part of the best nodes' changes that nobody tried, as a change of this parent."""
        refused = PartTrials.of(ask.history.runs[ask.run], ask.pool).refused_in_row
        found = (each for position, each in enumerate(self._candidates(ask, parent)) if position >= refused)
        return next(found, None)

    def _candidates(self, ask: Ask, parent: Node) -> Iterator[FoundPart]:
        """Every part that may be tried, the most promising first."""
        changes = filter(None, (self._whole_change(ask, parent, node) for node in best_nodes(ask)))
        for change in sorted(changes, key=lambda change: -change.expected):
            for index, part in change.untried.items():
                if (edits := self._edits_of(ask, parent, change, part)) is not None:
                    place = change.node, index + 1, change.count, part
                    yield FoundPart(*place, change.is_left_out, edits, change.expected)

    def _whole_change(self, ask: Ask, parent: Node, node: Node) -> _WholeChange | None:
        """The node's change; None where there is nothing to take apart, or nothing to expect of it."""
        if node.id.parent is None or len(parts := self._parts_of(ask.history, node)) < 2:
            return None
        if (total := _effect(ask, node)) is None:
            return None
        untried, effects, failures = dict(enumerate(parts)), [], 0
        for trial in _part_trials(ask, node):
            is_without = trial.operator == WITHOUT
            self._remove_tried(untried, self._parts_of(ask.history, trial), is_without)
            if (effect := _effect(ask, trial)) is not None:
                effects.append(-effect if is_without else effect)
            elif trial.verdict is not None:
                failures += 1
        if not untried or failures >= _MOST_FAILURES:
            return None
        is_left_out = parent.id.is_within(node.id)
        share = (total - sum(effects)) / max(len(parts) - len(effects), 1)
        return _WholeChange(node, len(parts), untried, is_left_out, -share if is_left_out else share)

    def _remove_tried(self, untried: dict[int, ChangePart], tried: Sequence[ChangePart], is_without: bool) -> None:
        """Take out the part that a trial tried: it stands elsewhere there, with the same lines."""
        contents = {part.content for part in tried}
        same = (i for i, part in untried.items() if (part.reversed if is_without else part).content in contents)
        if (index := next(same, None)) is not None:
            del untried[index]

    def _edits_of(self, ask: Ask, parent: Node, change: _WholeChange, part: ChangePart) -> Edits | None:
        """The parent's edits with this part; None where it does not fit, or is not worth a trial."""
        key = (parent.id, change.node.id, part)
        if key not in self._edits:
            _make_room(self._edits)
            self._edits[key] = self._fitting_edits(ask.history, parent, change, part)
        edits = self._edits[key]
        if edits is not None and self._fault(ask, parent, edits):
            edits = self._edits[key] = None
        return edits

    def _fitting_edits(
        self, history: History, parent: Node, change: _WholeChange, part: ChangePart
    ) -> Edits | None:
        assert change.node.id.parent
        base = change.node if change.is_left_out else history[change.node.id.parent]
        before, text = (self._text(history, node, part.path) for node in (base, parent))
        if before is None or text is None:
            return None
        after = text_with_part(part.reversed if change.is_left_out else part, before, text)
        return None if after is None or after == text else {part.path: after}

    def _parts_of(self, history: History, node: Node) -> tuple[ChangePart, ...]:
        if node.id not in self._parts:
            _make_room(self._parts)
            self._parts[node.id] = self._read_parts(history, node)
        return self._parts[node.id]

    def _read_parts(self, history: History, node: Node) -> tuple[ChangePart, ...]:
        """All parts of a node's change; none where there are too many, or where a file is new or gone."""
        assert node.id.parent
        parts: list[ChangePart] = []
        for path in node.edits:
            before, after = (self._text(history, one, path) for one in (history[node.id.parent], node))
            if before is None or after is None or not (found := change_parts(path, before, after)):
                return ()
            parts += found
        return tuple(parts) if len(parts) <= _MOST_PARTS else ()

    def _text(self, history: History, node: Node, path: str) -> str | None:
        return self._texts.text(origin_of(history, node).commit(path), path)


def _part_trials(ask: Ask, source: Node) -> Iterator[Node]:
    by_source = PartTrials.of(ask.history.runs[ask.run], ask.pool).by_source
    return map(ask.history.__getitem__, by_source.get(source.id, ()))


def _effect(ask: Ask, node: Node) -> float | None:
    """How much better the node is than its parent; None while that is not known."""
    if node.id in ask.running:
        return None
    over = over_parent(ask.history, node, Cohorts.of(ask.history.runs[ask.run]).fingerprint)
    return over.change.amount if over else None


def _make_room(cache: dict[Any, Any]) -> None:
    while len(cache) >= _MOST_CACHED:
        del cache[next(iter(cache))]
