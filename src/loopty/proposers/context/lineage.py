"""How a node came about, and what was tried on it already."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.domain.ids import NodeId
from loopty.engine.protocols import Ask
from loopty.proposers.context.node_line import NodeLines
from loopty.record.history import History
from loopty.record.node_record import Node

_MAX_CHILDREN = 8
_MAX_CHILDREN_READ = 32
"""Some are of the other pool, which is not shown."""


def path_lines(history: History, node: Node, limit: int, node_lines: NodeLines) -> list[str]:
    """The nodes from the baseline to this one; of a long path the first and the last ones."""
    near = [node.id]
    while len(near) < limit - 1 and (above := near[0].parent):
        near.insert(0, above)
    lines = [node_lines.of(history, history[each]) for each in near]
    if above := near[0].parent:
        root = NodeId(str(node.id.run))
        between = near[0].depth - 1
        gap = [f"… {between} more between …"] if between else []
        lines = [node_lines.of(history, history[root]), *gap, *lines]
    return lines


def child_lines(ask: Ask, parent: Node, node_lines: NodeLines) -> Iterator[str]:
    """The newest changes of this node, those still in flight included."""
    found = 0
    oldest = max(parent.children - _MAX_CHILDREN_READ, 0)
    for number in range(parent.children, oldest, -1):
        child = ask.history[parent.id.child(number)]
        if child.pool is ask.pool and found < _MAX_CHILDREN:
            found += 1
            yield node_lines.of(ask.history, child)
