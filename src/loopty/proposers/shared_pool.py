"""Proposers that share a pool: which answers were whose, and whose code a change of parameters is made to."""

from __future__ import annotations

from loopty.engine.protocols import Ask
from loopty.record.node_record import Node
from loopty.record.proposals import Proposals


def turn(ask: Ask, operator: str) -> int:
    """How many answers this operator has given in the pool, whoever else answered in between."""
    return Proposals.of(ask.history.runs[ask.run], ask.pool).answers.get(operator, 0) + ask.ahead


def parameter_parent(ask: Ask) -> Node:
    """The node in which the best one's code first was: the baseline, as long as nothing but parameters changed."""
    node = ask.best
    while (parent := node.id.parent) and ask.history[parent].tree == node.tree:
        node = ask.history[parent]
    return node
