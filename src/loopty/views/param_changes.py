"""Which parameters a node changes in its parent."""

from __future__ import annotations

from loopty.domain.space import Value
from loopty.record.node_record import Node
from loopty.views.tree_node import TreeNode


def param_changes(node: Node | TreeNode, parent: Node | TreeNode | None) -> dict[str, Value | None]:
    """The parameters that differ from the parent's, with the parent's value; None if it had none."""
    if parent is None:
        return {}
    before = parent.params
    return {name: older for name, value in node.params.items() if (older := before.get(name)) != value}
