"""How a node came about, and what was tried on it already."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.domain.ids import NodeId
from loopty.engine.protocols import Ask
from loopty.proposers.context.node_line import NodeLines
from loopty.record.history import History
from loopty.record.node_record import Node

_MOST_CHILDREN = 8
_CHILDREN_LOOKED_AT = 32
"""Some are of the other pool, which is not shown."""


def path_lines(history: History, node: Node, most: int, told: NodeLines) -> list[str]:
    """The nodes from the baseline to this one; of a long path the first and the last ones."""
    near = [node.id]
    while len(near) < most - 1 and (above := near[0].parent):
        near.insert(0, above)
    lines = [told.of(history, history[each]) for each in near]
    if above := near[0].parent:
        root = NodeId(str(node.id.run))
        between = near[0].depth - 1
        gap = [f"… {between} more between …"] if between else []
        lines = [told.of(history, history[root]), *gap, *lines]
    return lines


def tried_lines(ask: Ask, parent: Node, told: NodeLines) -> Iterator[str]:
    """The newest changes of this node, those still in flight included."""
    found = 0
    oldest = max(parent.children - _CHILDREN_LOOKED_AT, 0)
    for number in range(parent.children, oldest, -1):
        child = ask.history[parent.id.child(number)]
        if child.pool is ask.pool and found < _MOST_CHILDREN:
            found += 1
            yield told.of(ask.history, child)
