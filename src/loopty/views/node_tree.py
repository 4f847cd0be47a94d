"""The tree of a run as rows in display order, for any depth and size.

A limited tree decodes only the nodes it shows; the ids alone say which nodes there are.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping

from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.domain.space import Value
from loopty.kit.dataclass import dataclass
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.run_record import Run
from loopty.record.trials import Trials, trial_parts
from loopty.record.verdicts import Incumbents
from loopty.views.comparable import has_only_other_fingerprints, incumbents, score
from loopty.views.over_parent import OverParent, over_parent
from loopty.views.param_changes import param_changes

LIMIT = 200


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A node shown in the tree."""

    node: Node
    level: int
    """The number of shown nodes between it and the trunk; 0 on the trunk."""
    is_last: bool
    """Whether it is the last one on its level."""
    skips_nodes: bool
    """Whether nodes between it and the shown node above it are hidden."""
    hidden_below: int
    """How many of its descendants are hidden, without a shown node in between."""
    score: float | None
    """Under the run's present fingerprint."""
    other_score: float | None
    """Its score under another fingerprint if it has none under the present one."""
    is_best: bool
    on_path: bool
    """Whether it lies on the path from the root to the best node."""
    over_parent: OverParent | None
    """Its change over its parent; None without comparable results."""
    changed_params: Mapping[str, Value | None]
    """Parameters that differ from the parent's, with the parent's value; None if it had none."""


@dataclass(frozen=True, slots=True)
class HiddenControls:
    """The control nodes, which are not part of the search; the last line of a tree without them."""

    count: int
    best: Node | None
    """The best of them if it is better than the baseline."""
    score: float | None


TreeLine = TreeRow | HiddenControls


def tree(history: History, top: NodeId, limit: int | None = LIMIT, controls: bool = True) -> Iterator[TreeLine]:
    """The rows from `top` downwards, depth first; at most `limit` nodes, or all if it is None.

    The path to the best node is the trunk: its nodes have level 0, and each comes after the other children of the
    one before it. Without `controls`, the nodes of the control are only counted. Raises Misuse if there is no node
    `top`.
    """
    below = _descendants(history, top)
    run = history.runs[top.run]
    control = set() if controls else set(history.nodes_of_pool(top.run, Pool.CONTROL)) - {top}
    left_out = [node for node in below if node in control] if control else []
    best = Incumbents.of(run, Pool.ATTEMPT).best
    path = frozenset(best.lineage if best else ())
    above_all = dict(below)
    for node in left_out:
        del below[node]
    shown = set(below) if limit is None else _nodes_to_show(history, run, best, below, limit)
    above = _nearest_shown(above_all, shown)
    children: dict[NodeId, list[NodeId]] = {}
    for node in below:
        if node in shown and node != top:
            children.setdefault(above[node], []).append(node)
    hidden = Counter(above[node] for node in below if node not in shown)
    rows = _walk(history, run, top, children, hidden, path)
    return itertools.chain(rows, [_hidden_controls(history, run, left_out)]) if left_out else rows


def _hidden_controls(history: History, run: Run, left_out: list[NodeId]) -> HiddenControls:
    best = Incumbents.of(run, Pool.CONTROL).best
    if best not in left_out:
        return HiddenControls(len(left_out), None, None)
    return HiddenControls(len(left_out), history[best], _score(history, history[best], run))


def _descendants(history: History, top: NodeId) -> dict[NodeId, NodeId]:
    """Every node from `top` downwards, oldest first, with its parent; parents come before their children."""
    parents = {history[top].id: top}
    for node in history.ids:
        parent = node.rpartition(".")[0]
        if parent in parents:
            parents[node] = NodeId(parent)
    return parents


def _nodes_to_show(
    history: History, run: Run, best: NodeId | None, below: dict[NodeId, NodeId], limit: int
) -> set[NodeId]:
    """The nodes most worth a row: the top, the path to the best, then running, kept and new nodes."""
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
    """For every node, the closest shown node above it."""
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
) -> Iterator[TreeRow]:
    best, fingerprint = Incumbents.of(run, Pool.ATTEMPT).best, Cohorts.of(run).fingerprint
    # A stack, not recursion: a chain may be thousands of nodes deep.
    pending = [_PendingRow(top, 0, is_last=True, skips_nodes=False)]
    while pending:
        row = pending.pop()
        node, level = history[row.node], row.level + 1
        is_foreign = has_only_other_fingerprints(node, run)
        shown_children = sorted((_position(child, row.node), child) for child in children.get(row.node, ()))
        onward = [found for found in shown_children if found[1] in path]
        aside = [found for found in shown_children if found[1] not in path]
        yield TreeRow(
            node,
            row.level,
            row.is_last,
            row.skips_nodes,
            hidden[node.id],
            None if is_foreign else _score(history, node, run),
            history.score(node) if is_foreign else None,
            node.id == best,
            node.id in path,
            over_parent(history, node, fingerprint),
            param_changes(node, history[node.id.parent] if node.id.parent else None),
        )
        for position, child in onward:
            pending.append(_PendingRow(child, 0, is_last=True, skips_nodes=len(position) > 1))
        for number, (position, child) in enumerate(reversed(aside)):
            is_last = number == 0 and not onward
            pending.append(_PendingRow(child, level, is_last, skips_nodes=len(position) > 1))


def _score(history: History, node: Node, run: Run) -> float | None:
    """The node's score, also if it is a baseline that is still being measured."""
    here = score(history, node, Cohorts.of(run).fingerprint)
    return history.score(node) if here is None else here


@dataclass(frozen=True, slots=True)
class _PendingRow:
    """A row that is still to be drawn."""

    node: NodeId
    level: int
    is_last: bool
    skips_nodes: bool


def _position(node: NodeId, under: NodeId) -> tuple[int, ...]:
    """The numbers that lead from `under` to the node."""
    return tuple(map(int, node[len(under) + 1 :].split(".")))
