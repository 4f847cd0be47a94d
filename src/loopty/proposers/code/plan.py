"""The plan of the next call: an operator, the node to change, and the nodes to learn from."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.domain.model import ModelOption
from loopty.domain.outcome import Ending, Verdict
from loopty.engine.protocols import Ask, Selector
from loopty.kit.dataclass import dataclass, replace
from loopty.proposers.code.arm_choice import choose_arm
from loopty.proposers.code.code_options import CodeOptions, Operator
from loopty.record.calls import Reservation, Spend, UnreadReply
from loopty.record.node_record import Node
from loopty.record.operator_credit import OperatorCredit

_MAX_RECENT = 8
_MAX_FIXES = 2
"""Consecutive fixes; a node that still fails after them is given up."""
_FAILURES = (Ending.FAILED, Ending.TIMED_OUT, Ending.REFUSED)


@dataclass(frozen=True, slots=True)
class Plan:
    """An operator, the node that it changes, and the nodes that it may learn from."""

    operator: Operator
    parent: Node
    parent_reason: str
    inspirations: tuple[Node, ...] = ()
    model: str = ""
    """The model to ask; empty for `mutate`."""
    arm_reason: str = ""
    """Why this operator and this model."""


def best_nodes(ask: Ask) -> list[Node]:
    """The best nodes of the pool, the best first; the baseline may be one of them."""
    top = OperatorCredit.of(ask.history.runs[ask.run], ask.pool).top
    return [node for node in map(ask.history.__getitem__, top) if not node.files_removed]


def partners(ask: Ask, parent: Node) -> list[Node]:
    """The best nodes with other code that are neither ancestors nor descendants of the parent."""
    return [
        node
        for node in best_nodes(ask)
        if node.tree != parent.tree and not parent.id.is_within(node.id) and not node.id.is_within(parent.id)
    ]


def make_plan(ask: Ask, options: CodeOptions, selector: Selector, models: Sequence[ModelOption]) -> Plan:
    """A plan with an operator that applies now and a model; a diff of the parent when no operator applies."""
    selection = selector.select(ask)
    parent = selection.node
    failed = node_to_fix(ask) if Operator.FIX in options.operators else None
    others = partners(ask, parent) if Operator.CROSSOVER in options.operators else []
    unusable = {Operator.FIX: failed is None, Operator.CROSSOVER: not others}
    usable = [operator for operator in options.operators if not unusable.get(operator)]
    choice = choose_arm(ask, options, usable or [Operator.DIFF], models, selection.operator)
    plan = Plan(choice.arm.operator, parent, selection.reason, (), choice.arm.model, choice.reason)
    match choice.arm.operator:
        case Operator.FIX if failed:
            return replace(plan, parent=failed, parent_reason="the newest node that failed")
        case Operator.CROSSOVER:
            return replace(plan, inspirations=(ask.rng.choice(others),))
        case Operator.DRAFT:
            return replace(plan, parent=ask.root, parent_reason="a draft starts from the baseline")
        case _:
            return plan


def node_to_fix(ask: Ask) -> Node | None:
    """The newest of the recent nodes that failed and that nobody has tried to fix, or None."""
    run = ask.history.runs[ask.run]
    calls: list[Reservation | UnreadReply] = [*Spend.of(run).reservations.values(), *Spend.of(run).unread.values()]
    in_progress = {call.node for call in calls if call.operator == Operator.FIX}
    recent = ask.history.nodes_of_pool(ask.run, ask.pool)[-_MAX_RECENT:]
    for node in map(ask.history.__getitem__, reversed(recent)):
        failed = node.verdict is not Verdict.QUARANTINED and node.outcome and node.outcome.ending in _FAILURES
        failed = failed and not node.files_removed
        if failed and node.verdict and node.id.parent and not node.children and node.id not in in_progress:
            operators = [ask.history[ancestor].operator for ancestor in node.id.lineage[-_MAX_FIXES:]]
            if operators.count(Operator.FIX) < _MAX_FIXES:
                return node
    return None
