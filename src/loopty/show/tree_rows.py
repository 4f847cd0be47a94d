"""The tree of a run as rows in display order, for any depth and size."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from loopty.domain.ids import NodeId, handle_name
from loopty.domain.objective import score_metric
from loopty.domain.space import Value
from loopty.domain.trial import Effect, Ending, Pool, Verdict
from loopty.kit.records import Record
from loopty.record.database import damaged
from loopty.record.history import History
from loopty.record.node_record import Node, Withdrawal
from loopty.record.run_record import Run
from loopty.record.trials import Cohorts, Trials, trial_parts
from loopty.record.verdicts import Incumbents
from loopty.show.comparisons import (
    OverParent,
    has_only_other_fingerprints,
    incumbents,
    over_parent,
    over_score,
    score,
    sigma,
)


class TreeOutcome(Record):
    """What a line needs of the judging trial."""

    ending: Ending
    metrics: Mapping[str, Any] = {}
    fingerprint: str = ""


class TreeNode(Record):
    """What a line needs of a node: it is read many times as fast as all of it. The names are the same."""

    handle: int
    id: str
    pool: Pool
    operator: str
    summary: str
    params: Mapping[str, Any] = {}
    edits: tuple[str, ...] = ()
    draft: bool = False
    dropped: bool = False
    running: bool = False
    files_removed: bool = False
    merged: tuple[str, ...] = ()
    reopened_for: tuple[str, ...] = ()
    other_fingerprints: Mapping[str, Any] = {}
    withdrawn: Withdrawal | None = None
    effect: Effect | None = None
    verdict: Verdict | None = None
    against: str | None = None
    outcome: TreeOutcome | None = None

    @property
    def name(self) -> str:
        return handle_name(self.handle)

    @property
    def ending(self) -> Ending | None:
        """Tell how the judging trial ended; None before that."""
        return self.outcome.ending if self.outcome else None

    @property
    def is_pending(self) -> bool:
        """Say whether the node waits for a trial."""
        return not (self.draft or self.running or self.verdict)


_DECODER = msgspec.json.Decoder(TreeNode)


def read_tree_node(node: NodeId, body: str) -> TreeNode:
    """Read the node from its record. Raises Misuse if that is damaged."""
    try:
        return _DECODER.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise damaged(f"node {node}") from error


def param_changes(node: Node | TreeNode, parent: Node | TreeNode | None) -> dict[str, Value | None]:
    """Return the parameters that differ from the parent's, with the parent's value; None if it had none."""
    if parent is None:
        return {}
    before = parent.params
    return {name: older for name, value in node.params.items() if (older := before.get(name)) != value}


# A limited tree reads only the nodes that it shows: the database counts the others.


LIMIT = 200


class TreeRow(NamedTuple):
    """A node shown in the tree."""

    node: TreeNode
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
    merged: tuple[str, ...]
    """The names of its further parents."""


class HiddenControls(Record):
    """The control nodes, which are not part of the search; the last line of a tree without them."""

    count: int
    best: Node | None
    """The best of them if it is better than the baseline."""
    score: float | None


TreeLine = TreeRow | HiddenControls


def tree(history: History, top: NodeId, limit: int | None = LIMIT, controls: bool = True) -> Iterator[TreeLine]:
    """Yield the rows from `top` downwards, depth first; at most `limit` nodes, or all if it is None.

    The path to the best node is the trunk: its nodes have level 0, and each comes after the other children of the
    one before it. Without `controls`, the nodes of the control are only counted. Raises Misuse if there is no node
    `top`.
    """
    top = history[top].id
    run = history.runs[top.run]
    nodes = _TreeNodes(history, run)
    best = Incumbents.of(run, Pool.ATTEMPT).best

    def is_wanted(node: NodeId) -> bool:
        return node == top or (node.is_within(top) and (controls or nodes[node].pool is not Pool.CONTROL))

    if limit is None:
        nodes.read_all()
        shown: Collection[NodeId] = dict.fromkeys(filter(is_wanted, nodes.ids))
    else:
        shown = _nodes_to_show(history, top, best, is_wanted, limit)
    nearest = _NearestShown(shown)
    children: dict[NodeId, list[NodeId]] = {}
    for node in shown:
        if node != top:
            children.setdefault(nearest[node.rpartition(".")[0]], []).append(node)
    hidden = Counter({above: -len(found) for above, found in children.items()})
    left_out = 0
    for parent, pool, count in _children(history, top):
        if pool == Pool.CONTROL and not controls:
            left_out += count
        else:
            hidden[nearest[parent]] += count
    rows = _walk(nodes, top, children, hidden, frozenset(best.lineage if best else ()))
    return itertools.chain(rows, [_hidden_controls(history, top, left_out)]) if left_out else rows


def _children(history: History, top: NodeId) -> Iterator[tuple[NodeId, str, int]]:
    """Yield how many children each node from `top` downwards has in each pool."""
    rows = history.children(top.run)
    ids = history.nodes_of_handles([parent for parent, *_ in rows if parent])
    found = ((ids[parent], pool, count) for parent, pool, count in rows if parent)
    return (row for row in found if row[0].is_within(top))


def _hidden_controls(history: History, top: NodeId, count: int) -> HiddenControls:
    run = history.runs[top.run]
    best = Incumbents.of(run, Pool.CONTROL).best
    if best is None or best == top or not best.is_within(top) or history[best].pool is not Pool.CONTROL:
        return HiddenControls(count, None, None)
    return HiddenControls(count, history[best], _score(history, history[best], run))


def _nodes_to_show(
    history: History, top: NodeId, best: NodeId | None, is_wanted: Callable[[NodeId], bool], limit: int
) -> set[NodeId]:
    """Choose the nodes most worth a row: the top, the path to the best, then running, kept and new nodes."""
    run = history.runs[top.run]
    path = best.lineage[-max(limit // 2, 1) :] if best else []
    running = [trial_parts(name)[0] for name in Trials.of(run).running]
    kept = itertools.islice(incumbents(history, run, Cohorts.of(run).fingerprint), limit)
    newest = history.newest_nodes(top.run, tuple(Pool))
    chosen: set[NodeId] = set()
    for node in itertools.chain([top], reversed(path), running, kept, newest):
        if len(chosen) >= limit:
            break
        if node not in chosen and is_wanted(node):
            chosen.add(node)
    return chosen


class _NearestShown(dict[str, NodeId]):
    """The closest shown node above each node, or itself."""

    def __init__(self, shown: Iterable[NodeId]) -> None:
        super().__init__({str(node): node for node in shown})

    def __missing__(self, node: str) -> NodeId:
        passed = []
        while node not in self:  # not by recursion: a chain may be thousands of nodes deep
            passed.append(node)
            node = node.rpartition(".")[0]
        self.update(dict.fromkeys(passed, self[node]))
        return self[node]


def _walk(
    nodes: _TreeNodes,
    top: NodeId,
    children: Mapping[NodeId, list[NodeId]],
    hidden: Mapping[NodeId, int],
    path: frozenset[NodeId],
) -> Iterator[TreeRow]:
    best = Incumbents.of(nodes.run, Pool.ATTEMPT).best
    # A stack, not recursion: a chain may be thousands of nodes deep.
    pending = [(top, 0, True, False)]
    while pending:
        name, level, is_last, skips_nodes = pending.pop()
        node, parent = nodes[name], nodes.parent(name)
        score, other_score, over = nodes.compare(node, parent)
        yield TreeRow(
            node=node,
            level=level,
            is_last=is_last,
            skips_nodes=skips_nodes,
            hidden_below=hidden.get(name, 0),
            score=score,
            other_score=other_score,
            is_best=name == best,
            on_path=name in path,
            over_parent=over,
            changed_params=param_changes(node, parent),
            merged=tuple(nodes[NodeId(other)].name for other in node.merged),
        )
        if name not in children:
            continue
        shown_children = sorted((_position(child, name), child) for child in children[name])
        onward = [found for found in shown_children if found[1] in path]
        aside = [found for found in shown_children if found[1] not in path]
        last = aside[-1][1] if aside and not onward else None
        pending += [(child, 0, True, len(position) > 1) for position, child in onward]
        pending += [(child, level + 1, child == last, len(position) > 1) for position, child in reversed(aside)]


class _TreeNodes:
    """The nodes of one tree, each read once, and how they are compared."""

    def __init__(self, history: History, run: Run) -> None:
        self._history = history
        self.run = run
        self._nodes: dict[NodeId, TreeNode] = {}
        self._fingerprint = Cohorts.of(run).fingerprint
        metrics = history.counting_metrics(run.number)
        self._metric = score_metric(metrics) if metrics else None
        self._over_parent: dict[tuple[float, float], OverParent] = {}
        """The change from one score to another: in a long record many are the same."""
        self._noise = sigma(run, self._fingerprint, self._metric.name) if self._metric else 0.0

    def read_all(self) -> None:
        """Read all nodes together, in one pass."""
        self._nodes = {node: read_tree_node(node, body) for node, body in self._history.bodies()}

    @property
    def ids(self) -> Iterable[NodeId]:
        """List the nodes that were read, in the order in which they were added."""
        return iter(self._nodes)

    def __getitem__(self, node: NodeId) -> TreeNode:
        found = self._nodes.get(node)
        if found is None:
            found = self._nodes[node] = read_tree_node(node, self._history.body(node))
        return found

    def parent(self, node: NodeId) -> TreeNode | None:
        above = node.rpartition(".")[0]
        return self[NodeId(above)] if above else None

    def compare(
        self, node: TreeNode, parent: TreeNode | None
    ) -> tuple[float | None, float | None, OverParent | None]:
        """Return the node's score under the run's fingerprint, else another's; and its change over its parent."""
        metric = self._metric
        if metric is None or not self._is_plain(node):
            return self._compare_whole(self._history[NodeId(node.id)])
        score = node.outcome.metrics.get(metric.name) if node.outcome else None
        if parent is None or node.outcome is None:
            return score, None, None
        if not self._is_plain(parent):
            return score, None, over_parent(self._history, self._history[NodeId(node.id)], self._fingerprint)
        older = parent.outcome.metrics.get(metric.name) if parent.outcome else None
        if node.ending is not Ending.FINISHED or score is None or older is None:
            return score, None, None
        if node.effect and node.against == parent.id:
            return score, None, over_score(score, older, metric, self._noise, node.effect)
        found = self._over_parent.get((score, older))
        if found is None:
            found = self._over_parent[score, older] = over_score(score, older, metric, self._noise, None)
        return score, None, found

    def _compare_whole(self, node: Node) -> tuple[float | None, float | None, OverParent | None]:
        """Return the same for a node with results under several fingerprints."""
        over = over_parent(self._history, node, self._fingerprint)
        if has_only_other_fingerprints(node, self.run):
            return None, self._history.score(node), over
        return _score(self._history, node, self.run), None, over

    def _is_plain(self, node: TreeNode) -> bool:
        """Say whether all results of the node are under the run's fingerprint."""
        outcome = node.outcome
        return not node.other_fingerprints and (outcome is None or outcome.fingerprint == self._fingerprint)


def _score(history: History, node: Node, run: Run) -> float | None:
    """Return the node's score, also if it is a baseline that is still being measured."""
    here = score(history, node, Cohorts.of(run).fingerprint)
    return history.score(node) if here is None else here


def _position(node: NodeId, under: NodeId) -> tuple[int, ...]:
    """Return the numbers that lead from `under` to the node."""
    below = node[len(under) + 1 :]
    return tuple(map(int, below.split("."))) if "." in below else (int(below),)
