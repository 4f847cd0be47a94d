"""The path to a node, and the changes already tried on it."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.domain.ids import NodeId
from loopty.engine.protocols import Ask
from loopty.proposers.context.node_line import NodeLines
from loopty.record.history import History
from loopty.record.node_record import Node

_MAX_CHILDREN = 8
_MAX_CHILDREN_READ = 32
"""More than are shown, because some belong to the other pool."""


def path_lines(history: History, node: Node, limit: int, node_lines: NodeLines) -> list[str]:
    """The nodes from the baseline to this one, a line each; of a long path the first one and the last ones."""
    last = [node.id]
    while len(last) < limit - 1 and (parent := last[0].parent):
        last.insert(0, parent)
    lines = [node_lines.of(history, history[each]) for each in last]
    if last[0].parent:
        root = NodeId(str(node.id.run))
        between = last[0].depth - 1
        gap = [f"… {between} more between …"] if between else []
        lines = [node_lines.of(history, history[root]), *gap, *lines]
    return lines


def child_lines(ask: Ask, parent: Node, node_lines: NodeLines) -> Iterator[str]:
    """The newest changes to this node, a line each, running trials included."""
    count = 0
    oldest = max(parent.children - _MAX_CHILDREN_READ, 0)
    for number in range(parent.children, oldest, -1):
        child = ask.history[parent.id.child(number)]
        if child.pool is ask.pool and count < _MAX_CHILDREN:
            count += 1
            yield node_lines.of(ask.history, child)
