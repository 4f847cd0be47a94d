"""The plan of the next call: an operator, the node to change, and the nodes to learn from."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.domain.model import ModelOption
from loopty.domain.outcome import Ending, Verdict
from loopty.engine.protocols import Ask, Selector
from loopty.kit.records import Record, replace
from loopty.proposers.code.arm_choice import choose_arm
from loopty.proposers.code.code_options import CodeOptions, Operator, Policy
from loopty.proposers.code.partners import merge_partners, partners
from loopty.record.calls import Reservation, Spend, UnreadReply
from loopty.record.node_record import Node
from loopty.record.parent_exclusions import exclusion
from loopty.record.search_learning import SearchLearning

_MAX_RECENT = 8
_MAX_FIXES = 2
"""Consecutive fixes; a node that still fails after them is given up."""
_FAILURES = (Ending.FAILED, Ending.TIMED_OUT, Ending.REFUSED)


class Plan(Record):
    """An operator, the node that it changes, and the nodes that it may learn from."""

    operator: Operator
    parent: Node
    parent_reason: str
    inspirations: tuple[Node, ...] = ()
    model: str = ""
    """The model to ask; empty for `mutate`."""
    arm_reason: str = ""
    """Why this operator and this model."""
    batch: int = 1
    """Proposals of the call."""


def make_plan(ask: Ask, options: CodeOptions, selector: Selector, models: Sequence[ModelOption]) -> Plan:
    """A plan with an operator that applies now and a model; a diff of the parent when no operator applies."""
    selection = selector.select(ask)
    parent = selection.node
    failed = node_to_fix(ask) if Operator.FIX in options.operators else None
    others = partners(ask, parent) if Operator.CROSSOVER in options.operators else []
    mergeable = merge_partners(ask, parent) if Operator.MERGE in options.operators else []
    unusable = {
        Operator.FIX: failed is None or (selection.is_directed and not failed.id.is_within(parent.id)),
        Operator.DRAFT: selection.is_directed,
        Operator.CROSSOVER: not others,
        Operator.MERGE: not mergeable,
    }
    usable = [operator for operator in options.operators if not unusable.get(operator)]
    choice = choose_arm(ask, options, usable or [Operator.DIFF], models, selection.operator)
    arm, batch = choice.arm, _batch(ask, options)
    plan = Plan(arm.operator, parent, selection.reason, (), arm.model, choice.reason, batch)
    match arm.operator:
        case Operator.FIX if failed:
            return replace(plan, parent=failed, parent_reason="the newest node that failed")
        case Operator.CROSSOVER:
            return replace(plan, inspirations=(ask.rng.choice(others),))
        case Operator.MERGE:
            return replace(plan, inspirations=(ask.rng.choice(mergeable),), model=models[0].name)
        case Operator.DRAFT:
            return replace(plan, parent=ask.root, parent_reason="a draft starts from the baseline")
        case _:
            return plan


def _batch(ask: Ask, options: CodeOptions) -> int:
    move = SearchLearning.of(ask.history.runs[ask.run], ask.pool).move
    return move.config.batch if move and options.policy is Policy.GRADIENT else options.batch


def node_to_fix(ask: Ask) -> Node | None:
    """The newest of the recent nodes that failed and that nobody has tried to fix, or None."""
    run = ask.history.runs[ask.run]
    calls: list[Reservation | UnreadReply] = [*Spend.of(run).reservations.values(), *Spend.of(run).unread.values()]
    in_progress = {call.node for call in calls if call.operator == Operator.FIX}
    recent = ask.history.nodes_of_pool(ask.run, ask.pool)[-_MAX_RECENT:]
    for node in map(ask.history.__getitem__, reversed(recent)):
        failed = node.verdict is not Verdict.QUARANTINED and node.outcome and node.outcome.ending in _FAILURES
        failed = failed and not node.files_removed and not exclusion(ask.history, node.id, ask.anchors.audits)
        if failed and node.verdict and node.id.parent and not node.children and node.id not in in_progress:
            operators = [ask.history[ancestor].operator for ancestor in node.id.lineage[-_MAX_FIXES:]]
            if operators.count(Operator.FIX) < _MAX_FIXES:
                return node
    return None
