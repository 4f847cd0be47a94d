"""The path to a node, and the changes already tried on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopty.domain.ids import NodeId
from loopty.engine.protocols import Ask
from loopty.proposers.context.node_line import NodeLines
from loopty.record.history import History
from loopty.record.node_record import Node

_MAX_CHILDREN = 8
_MAX_CHILDREN_READ = 32
"""More than are shown, because some belong to the other pool."""


def path_nodes(node: Node, limit: int) -> list[NodeId]:
    """The changes from the baseline to this node; of a long path the last ones."""
    path = [] if node.id.parent is None else [node.id]
    while path and len(path) < limit and (parent := path[0].parent) and parent.parent:
        path.insert(0, parent)
    return path


def path_lines(history: History, path: Sequence[NodeId], node_lines: NodeLines) -> list[str]:
    """The nodes of a path, with their changes, and how many came before them."""
    earlier = path[0].depth - 1 if path else 0
    gap = [f"... {earlier} earlier changes ..."] if earlier else []
    return [*gap, *(_path_line(history, history[node], node_lines, node == path[-1]) for node in path)]


def _path_line(history: History, node: Node, node_lines: NodeLines, is_last: bool) -> str:
    failed = node.outcome is not None and not node.outcome.is_finished
    return node_lines.without_result(node) if is_last and failed else node_lines.with_change(history, node)


def tried_children(ask: Ask, parent: Node) -> Iterator[Node]:
    """The newest changes to this node, running trials included."""
    count = 0
    oldest = max(parent.children - _MAX_CHILDREN_READ, 0)
    for number in range(parent.children, oldest, -1):
        child = ask.history[parent.id.child(number)]
        if child.pool is ask.pool and not child.dropped:
            count += 1
            yield child
        if count == _MAX_CHILDREN:
            return
