"""Why nothing can be done with a node any more."""

from __future__ import annotations

from loopty.domain.errors import Misuse
from loopty.record.node_record import Node


def parent_refusal(parent: Node) -> str | None:
    """Why nothing can be built on a node any more, or None: it may have changed since a proposer chose it."""
    if parent.is_invalidated:
        return f"its parent {parent.name} is invalidated: {parent.reason}"
    if parent.files_removed:
        return f"the files of its parent {parent.name} were removed by `loopty gc`"
    return f"its parent {parent.name} was dropped" if parent.dropped else None


def refuse_dropped(node: Node) -> None:
    if node.dropped:
        raise Misuse(f"{node.name} was dropped: make a new one with `loopty new`")
