"""The tree of a run as rows in display order, for any depth and size."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from loopty.domain.ids import NodeId, handle_name
from loopty.domain.objective import score_metric
from loopty.domain.space import Value
from loopty.domain.trial import Effect, Ending, Pool, Verdict
from loopty.kit import codec
from loopty.kit.records import Record
from loopty.record.history import History
from loopty.record.node_record import Node, Withdrawal
from loopty.record.pages import UNREADABLE, damaged_page
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

_AT_ONCE = 2_000
_POOLS = {pool.value: pool for pool in Pool}
_VERDICTS: dict[str | None, Verdict | None] = {None: None, **{verdict.value: verdict for verdict in Verdict}}
_ENDINGS: dict[str | None, Ending | None] = {None: None, **{ending.value: ending for ending in Ending}}


class TreeNode:
    """What a line needs of a node; the names are those of `Node`."""

    # Few nodes have these, so that most take the values of the class.
    edits: Sequence[str] = ()
    draft = False
    dropped = False
    running = False
    files_removed = False
    merged: Sequence[str] = ()
    reopened_for: Sequence[str] = ()
    has_other_results = False
    withdrawn: Withdrawal | None = None
    effect: Effect | None = None

    def __init__(
        self,
        node: NodeId,
        handle: int,
        pool: str,
        operator: str,
        summary: str,
        params: Mapping[str, Value],
        verdict: str | None,
        against: str | None,
        ending: str | None,
        fingerprint: str,
        metrics: Mapping[str, float],
        rare: Mapping[str, Any] | None = None,
    ) -> None:
        self.id = node
        self.handle = handle
        self.pool = _POOLS[pool]
        self.operator = operator
        self.summary = summary
        self.params = params
        self.verdict = _VERDICTS[verdict]
        self.against = against
        self.ending = _ENDINGS[ending]
        """How the judging trial ended; None before that."""
        self.fingerprint = fingerprint
        self.metrics = metrics
        if rare:
            self._add(**rare)

    def _add(
        self, withdrawn: Mapping[str, Any] | None = None, effect: Mapping[str, Any] | None = None, **others: Any
    ) -> None:
        """Add what few nodes have."""
        self.__dict__.update(others)
        self.withdrawn = codec.build(Withdrawal, withdrawn) if withdrawn else None
        self.effect = codec.build(Effect, effect) if effect else None

    @property
    def name(self) -> str:
        return handle_name(self.handle)

    @property
    def is_pending(self) -> bool:
        """Say whether the node waits for a trial."""
        return not (self.draft or self.running or self.verdict)


def read_tree_node(node: NodeId, facts: str) -> TreeNode:
    """Read the node that these facts are about. Raises Misuse if they are damaged."""
    try:
        return TreeNode(node, *json.loads(facts))
    except UNREADABLE as error:
        raise damaged_page(f"node {node}") from error


def read_tree_nodes(facts: Iterable[tuple[NodeId, str]]) -> Iterator[TreeNode]:
    """Read all of these nodes; many are decoded together, in half the time."""
    facts = iter(facts)
    while some := list(islice(facts, _AT_ONCE)):
        try:
            rows = json.loads(f"[{','.join([text for _, text in some])}]")
            yield from [TreeNode(node, *row) for (node, _), row in zip(some, rows, strict=True)]
        except UNREADABLE:
            yield from (read_tree_node(node, text) for node, text in some)  # one of them says which is damaged


def param_changes(node: Node | TreeNode, parent: Node | TreeNode | None) -> dict[str, Value | None]:
    """Return the parameters that differ from the parent's, with the parent's value; None if it had none."""
    if parent is None:
        return {}
    before = parent.params
    return {name: older for name, value in node.params.items() if (older := before.get(name)) != value}


# A limited tree reads only the nodes it shows; the ids alone say which nodes there are.


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
    if limit is None:
        nodes.read_all()
    below = _descendants(nodes.ids if limit is None else history.ids, top)
    control = set() if controls else set(history.nodes_of_pool(top.run, Pool.CONTROL)) - {top}
    left_out = [node for node in below if node in control] if control else []
    best = Incumbents.of(run, Pool.ATTEMPT).best
    path = frozenset(best.lineage if best else ())
    above = dict(below)
    for node in left_out:
        del below[node]
    shown: Collection[NodeId] = below.keys()
    if limit is not None:
        shown = _nodes_to_show(history, run, best, below, limit)
    if left_out or limit is not None:
        above = _nearest_shown(above, shown)
    children: dict[NodeId, list[NodeId]] = {}
    for node in shown:
        if node != top:
            children.setdefault(above[node], []).append(node)
    hidden = Counter(above[node] for node in below if node not in shown)
    rows = _walk(nodes, top, children, hidden, path)
    return itertools.chain(rows, [_hidden_controls(history, run, left_out)]) if left_out else rows


def _hidden_controls(history: History, run: Run, left_out: list[NodeId]) -> HiddenControls:
    best = Incumbents.of(run, Pool.CONTROL).best
    if best not in left_out:
        return HiddenControls(len(left_out), None, None)
    return HiddenControls(len(left_out), history[best], _score(history, history[best], run))


def _descendants(ids: Iterable[NodeId], top: NodeId) -> dict[NodeId, NodeId]:
    """Map every node from `top` downwards to its parent, oldest first; parents come before children."""
    parents, known = {top: top}, {str(top): top}
    for node in ids:
        parent = known.get(node.rpartition(".")[0])
        if parent is not None:
            parents[node] = parent
            known[node] = node
    return parents


def _nodes_to_show(
    history: History, run: Run, best: NodeId | None, below: dict[NodeId, NodeId], limit: int
) -> set[NodeId]:
    """Choose the nodes most worth a row: the top, the path to the best, then running, kept and new nodes."""
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


def _nearest_shown(below: dict[NodeId, NodeId], shown: Collection[NodeId]) -> dict[NodeId, NodeId]:
    """Find, for every node, the closest shown node above it."""
    above: dict[NodeId, NodeId] = {}
    for node, parent in below.items():
        above[node] = parent if parent in shown else above[parent]
    return above


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
        self._nodes: dict[str, TreeNode] = {}
        self._fingerprint = Cohorts.of(run).fingerprint
        metrics = history.counting_metrics(run.number)
        self._metric = score_metric(metrics) if metrics else None
        self._over_parent: dict[tuple[float, float], OverParent] = {}
        """The change from one score to another: in a long record many are the same."""
        self._noise = sigma(run, self._fingerprint, self._metric.name) if self._metric else 0.0

    def read_all(self) -> None:
        """Read all nodes together, in one pass."""
        self._nodes = {node.id: node for node in read_tree_nodes(self._history.all_tree_facts())}

    @property
    def ids(self) -> Iterable[NodeId]:
        """List the nodes that were read, in the order in which they were added."""
        return (node.id for node in self._nodes.values())

    def __getitem__(self, node: NodeId) -> TreeNode:
        found = self._nodes.get(node)
        if found is None:
            found = self._nodes[node] = read_tree_node(node, self._history.tree_facts(node))
        return found

    def parent(self, node: NodeId) -> TreeNode | None:
        above = node.rpartition(".")[0]
        return (self._nodes.get(above) or self[NodeId(above)]) if above else None

    def compare(
        self, node: TreeNode, parent: TreeNode | None
    ) -> tuple[float | None, float | None, OverParent | None]:
        """Return the node's score under the run's fingerprint, else another's; and its change over its parent."""
        metric = self._metric
        if metric is None or not self._is_plain(node):
            return self._compare_whole(self._history[node.id])
        score = node.metrics.get(metric.name)
        if parent is None or node.ending is None:
            return score, None, None
        if not self._is_plain(parent):
            return score, None, over_parent(self._history, self._history[node.id], self._fingerprint)
        older = parent.metrics.get(metric.name)
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
        return not node.has_other_results and (node.ending is None or node.fingerprint == self._fingerprint)


def _score(history: History, node: Node, run: Run) -> float | None:
    """Return the node's score, also if it is a baseline that is still being measured."""
    here = score(history, node, Cohorts.of(run).fingerprint)
    return history.score(node) if here is None else here


def _position(node: NodeId, under: NodeId) -> tuple[int, ...]:
    """Return the numbers that lead from `under` to the node."""
    below = node[len(under) + 1 :]
    return tuple(map(int, below.split("."))) if "." in below else (int(below),)
