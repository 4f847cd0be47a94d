"""Which parameters a node changes in its parent."""

from __future__ import annotations

from loopty.domain.space import Value
from loopty.record.node_record import Node


def param_changes(node: Node, parent: Node | None) -> dict[str, Value | None]:
    """The parameters that differ from the parent's, with the parent's value; None if it had none."""
    if parent is None:
        return {}
    return {
        name: parent.params.get(name) for name, value in node.params.items() if parent.params.get(name) != value
    }
