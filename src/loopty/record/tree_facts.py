"""What a line of the tree needs of a node, as a short line of JSON beside its page: a tree may show a million."""

from __future__ import annotations

from typing import Any

from loopty.kit import codec
from loopty.record.node_record import Node

_RARE = ("edits", "draft", "dropped", "running", "files_removed", "merged", "reopened_for", "withdrawn", "effect")
"""Fields that few nodes have; they are written by name."""


def tree_facts_text(node: Node) -> str:
    """The facts as a list: what every node has in its order, then what few nodes have, by name."""
    outcome = node.outcome
    facts: list[Any] = [
        node.handle,
        node.pool,
        node.operator,
        node.summary,
        node.params,
        node.verdict,
        node.against,
        outcome.ending if outcome else None,
        outcome.fingerprint if outcome else "",
        outcome.metrics if outcome else {},
    ]
    rare = {name: value for name in _RARE if (value := getattr(node, name))}
    if node.other_fingerprints:
        rare["has_other_results"] = True
    return codec.text([*facts, rare] if rare else facts)
