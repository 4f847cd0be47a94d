"""What the next call is to be about."""

from __future__ import annotations

from dataclasses import dataclass

from loopty.engine.protocols import Ask, Selector
from loopty.proposers.code.code_options import CodeOptions, Operator
from loopty.proposers.code.standing import BestNodes, node_to_fix
from loopty.record.node_record import Node


@dataclass(frozen=True, slots=True)
class Plan:
    """An operator, the node that it is to change, and the nodes that it may learn from."""

    operator: Operator
    parent: Node
    parent_reason: str
    inspirations: tuple[Node, ...] = ()


def make_plan(ask: Ask, options: CodeOptions, selector: Selector, best_nodes: BestNodes) -> Plan:
    """Drawn among the operators that apply now; where none does, some lines of the parent are changed."""
    selection = selector.select(ask)
    parent, reason = selection.node, selection.reason
    failed = node_to_fix(ask) if Operator.FIX in options.operators else None
    partners = best_nodes.partners(ask, parent) if Operator.CROSSOVER in options.operators else []
    lacking = {Operator.FIX: failed is None, Operator.CROSSOVER: not partners}
    usable = [operator for operator in options.operators if not lacking.get(operator)]
    match ask.rng.choice(usable or [Operator.DIFF]):
        case Operator.FIX if failed:
            return Plan(Operator.FIX, failed, "the newest node that failed")
        case Operator.CROSSOVER:
            return Plan(Operator.CROSSOVER, parent, reason, (ask.rng.choice(partners),))
        case Operator.DRAFT:
            return Plan(Operator.DRAFT, ask.root, "a draft starts from the baseline")
        case operator:
            return Plan(operator, parent, reason)
