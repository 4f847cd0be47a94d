"""Proposers that share a pool: how many answers each has given, and the node whose parameters they change."""

from __future__ import annotations

from loopty.engine.protocols import Ask
from loopty.record.node_record import Node
from loopty.record.proposals import Proposals


def turn(ask: Ask, operator: str) -> int:
    """How many answers this operator has given in the pool; the answers of others do not count."""
    return Proposals.of(ask.history.runs[ask.run], ask.pool).answers.get(operator, 0) + ask.ahead


def parameter_parent(ask: Ask) -> Node:
    """The first node with the code of the best node: the baseline as long as only parameters have changed."""
    node = ask.best
    while (parent := node.id.parent) and ask.history[parent].tree == node.tree:
        node = ask.history[parent]
    return node
