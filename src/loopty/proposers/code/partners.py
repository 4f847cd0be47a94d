"""The other nodes that a change may build on."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from loopty.engine.protocols import Ask
from loopty.record.frozen_pools import FrozenPool
from loopty.record.node_record import Node
from loopty.record.operator_credit import OperatorCredit
from loopty.record.parent_exclusions import exclusion

_MOST_CHILDREN = 64


def best_nodes(ask: Ask) -> list[Node]:
    """The best nodes of the pool, the best first; the baseline may be one of them."""
    top = OperatorCredit.of(ask.history.runs[ask.run], ask.pool).top
    return [
        node
        for node in map(ask.history.__getitem__, top)
        if not node.files_removed and not exclusion(ask.history, node.id, ask.anchors.audits)
    ]


def partners(ask: Ask, parent: Node) -> list[Node]:
    """Nodes better than the baseline with other code that are neither ancestors nor descendants of the parent."""
    return [
        node
        for node in itertools.takewhile(lambda node: node.id != ask.root.id, best_nodes(ask))
        if node.tree != parent.tree and not parent.id.is_within(node.id) and not node.id.is_within(parent.id)
    ]


def merge_partners(ask: Ask, parent: Node) -> list[Node]:
    """Nodes whose changes the parent may take over: neither it nor one of its children has them already."""
    history = ask.history
    known = {node for above in parent.id.lineage[1:] for node in history[above].merged}
    newest = range(parent.children, max(parent.children - _MOST_CHILDREN, 0), -1)
    known |= {node for number in newest for node in history[parent.id.child(number)].merged}
    return [node for node in _others(ask, parent) if node.id not in known and not node.files_removed]


def _others(ask: Ask, parent: Node) -> Iterable[Node]:
    pool = FrozenPool.of(ask.history.runs[ask.run])
    if not pool.base:
        return partners(ask, parent)
    first, *rest = (member.node for member in pool.members)
    return [ask.history[node] for node in rest if not first.is_within(node)]
