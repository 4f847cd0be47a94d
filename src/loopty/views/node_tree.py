"""The tree of a run as rows in display order, of any depth and size.

A limited tree decodes only the nodes that it shows: which nodes there are is read off their ids.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.run_record import Run
from loopty.record.trials import Trials, trial_parts
from loopty.record.verdicts import Incumbents
from loopty.views.comparable import has_only_other_fingerprints, incumbents, score

LIMIT = 200


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A node of the tree."""

    node: Node
    level: int
    """How many shown nodes lie above it."""
    is_last: bool
    """Whether nothing follows it on its level."""
    skips_nodes: bool
    """Whether nodes between it and the shown node above it are left out."""
    hidden_below: int
    """How many nodes descend from it where none of them is shown."""
    score: float | None
    """Under the run's present fingerprint."""
    other_score: float | None
    """Its score under another fingerprint, where it has none under the present one."""
    is_best: bool
    on_path: bool
    """Whether it lies on the path from the root to the best node."""


@dataclass(frozen=True, slots=True)
class HiddenNodes:
    """Nodes left out beside shown ones: they descend from `under`, and no shown node lies between."""

    under: NodeId
    level: int
    count: int


TreeLine = TreeRow | HiddenNodes


def tree(history: History, top: NodeId, limit: int | None = LIMIT) -> Iterator[TreeLine]:
    """The nodes from `top` downwards, depth first; at most `limit` of them, or all when it is None."""
    below = _descendants(history, top)
    run = history.runs[top.run]
    best = Incumbents.of(run, Pool.ATTEMPT).best
    path = frozenset(best.lineage if best else ())
    shown = set(below) if limit is None else _nodes_to_show(history, run, best, below, limit)
    above = _nearest_shown(below, shown)
    children: dict[NodeId, list[NodeId]] = {}
    for node in below:
        if node in shown and node != top:
            children.setdefault(above[node], []).append(node)
    hidden = Counter(above[node] for node in below if node not in shown)
    return _walk(history, run, top, children, hidden, path)


def _descendants(history: History, top: NodeId) -> dict[NodeId, NodeId]:
    """Every node from `top` downwards, oldest first, with its parent; parents stand before their children."""
    found = {history[top].id: top}
    for node in history.ids:
        parent = node.rpartition(".")[0]
        if parent in found:
            found[node] = NodeId(parent)
    return found


def _nodes_to_show(
    history: History, run: Run, best: NodeId | None, below: dict[NodeId, NodeId], limit: int
) -> set[NodeId]:
    """The nodes most worth a line: the top, the path to the best, what runs, what was kept, what is new."""
    path = best.lineage[-max(limit // 2, 1) :] if best else []
    running = [trial_parts(name)[0] for name in Trials.of(run).running]
    kept = itertools.islice(incumbents(history, run, Cohorts.of(run).fingerprint), limit)
    chosen: set[NodeId] = set()
    for node in itertools.chain(itertools.islice(below, 1), reversed(path), running, kept, reversed(below)):
        if len(chosen) >= limit:
            break
        if node in below:
            chosen.add(node)
    return chosen


def _nearest_shown(below: dict[NodeId, NodeId], shown: set[NodeId]) -> dict[NodeId, NodeId]:
    """For every node the closest shown one above it."""
    above: dict[NodeId, NodeId] = {}
    for node, parent in below.items():
        above[node] = parent if parent in shown else above[parent]
    return above


def _walk(
    history: History,
    run: Run,
    top: NodeId,
    children: dict[NodeId, list[NodeId]],
    hidden: Counter[NodeId],
    path: frozenset[NodeId],
) -> Iterator[TreeLine]:
    # A stack, not recursion: a chain may be thousands of nodes deep.
    waiting: list[_PendingRow | HiddenNodes] = [_PendingRow(top, 0, is_last=True, skips_nodes=False)]
    while waiting:
        spot = waiting.pop()
        if isinstance(spot, HiddenNodes):
            yield spot
            continue
        node, level = history[spot.node], spot.level + 1
        elsewhere = has_only_other_fingerprints(node, run)
        family = sorted((_position(child, spot.node), child) for child in children.get(spot.node, ()))
        yield TreeRow(
            node,
            spot.level,
            spot.is_last,
            spot.skips_nodes,
            0 if family else hidden[node.id],
            None if elsewhere else _score(history, node, run),
            history.score(node) if elsewhere else None,
            node.id == Incumbents.of(run, Pool.ATTEMPT).best,
            node.id in path,
        )
        if family and hidden[node.id]:
            waiting.append(HiddenNodes(node.id, level, hidden[node.id]))
        for number, (place, child) in enumerate(reversed(family)):
            last = number == 0 and not hidden[node.id]
            waiting.append(_PendingRow(child, level, last, skips_nodes=len(place) > 1))


def _score(history: History, node: Node, run: Run) -> float | None:
    """Also of a node that did not finish, and of a baseline that is still being measured."""
    here = score(history, node, Cohorts.of(run).fingerprint)
    return history.score(node) if here is None else here


@dataclass(frozen=True, slots=True)
class _PendingRow:
    """Where a node will be shown."""

    node: NodeId
    level: int
    is_last: bool
    skips_nodes: bool


def _position(node: NodeId, under: NodeId) -> tuple[int, ...]:
    return tuple(map(int, node[len(under) + 1 :].split(".")))
