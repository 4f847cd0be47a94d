"""The name of a node on the screen: `@95`, which every verb accepts."""

from __future__ import annotations

from loopty.domain.ids import handle_name


def node_name(node: str, handle: int) -> str:
    """`@95`; the id where a node has no handle here: an artifact's node is of another ledger."""
    return handle_name(handle) if handle else str(node)
