"""The plan of the next call: an operator, the node to change, the nodes to learn from, and merges of two nodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from loopty.domain.ids import NodeId
from loopty.domain.model import ModelOption
from loopty.domain.proposal import Objection, Proposal, Refusal
from loopty.domain.task import Pools
from loopty.domain.trial import Ending, Verdict
from loopty.engine.protocols import Ask, Selection, Selector
from loopty.kit.foreign_text import one_line
from loopty.kit.records import Record, replace
from loopty.proposers.code.arms import choose_arm, dearest
from loopty.proposers.code.options import CodeOptions, Operator
from loopty.proposers.services import MergeFiles
from loopty.record.calls import Reservation, Spend, UnreadReply
from loopty.record.directives import exclusion
from loopty.record.node_record import Node
from loopty.record.nodes import Proposals
from loopty.record.search_learning import GivenDirections, OperatorCredit
from loopty.record.search_summary import FrozenPool
from loopty.record.verdicts import Incumbents

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
    shows_best: bool = False
    """Whether the other node is the best so far, to learn from, and not one to combine with."""


class Widening(StrEnum):
    """How the search looks elsewhere."""

    OTHER_PARENT = "another good node"
    OTHER_FAMILY = "the second-best family"
    DEAREST_MODEL = "the dearest model"
    DIRECTIONS = "a reviewer's directions"


WIDENING: Mapping[Widening, int] = {
    Widening.OTHER_PARENT: 6,
    Widening.OTHER_FAMILY: 12,
    Widening.DEAREST_MODEL: 18,
    Widening.DIRECTIONS: 24,
}
"""After how many verdicts without a new best node each begins. Then every second proposal widens, all in turn."""


def make_plan(
    ask: Ask,
    options: CodeOptions,
    selector: Selector,
    models: Sequence[ModelOption],
    pools: Pools | None = None,
) -> Plan:
    """Make a plan: an operator that applies now, else a diff of the parent, and a model.

    The best program is shown with it, but for the drafts at the start, which are to be different.
    """
    plan = _make_plan(ask, options, selector, models, pools)
    drafts = Proposals.of(ask.history.runs[ask.run], ask.pool).answers.get(Operator.DRAFT, 0)
    is_blind = plan.operator is Operator.DRAFT and drafts < options.drafts
    if is_blind or plan.inspirations or plan.operator is Operator.MUTATE:
        return plan
    best = next(iter(best_nodes(ask)), ask.root)
    if best.id == ask.root.id or best.tree == plan.parent.tree:
        return plan
    return replace(plan, inspirations=(best,), shows_best=True)


def directions_due(ask: Ask) -> bool:
    """Say whether the search stands still for so long that a reviewer should be asked for directions."""
    run = ask.history.runs[ask.run]
    is_long = Incumbents.of(run, ask.pool).since_best >= WIDENING[Widening.DIRECTIONS]
    return is_long and not GivenDirections.in_force(run, ask.pool)


def _wider(ask: Ask) -> Widening | None:
    """Return how this proposal widens a search that stands still; None for one that goes on as before."""
    since_best = Incumbents.of(ask.history.runs[ask.run], ask.pool).since_best
    due = [kind for kind, start in WIDENING.items() if start <= since_best and kind is not Widening.DIRECTIONS]
    return due[ask.position // 2 % len(due)] if due and ask.position % 2 else None


def _widened(ask: Ask, selection: Selection, kind: Widening | None) -> Selection:
    """Return another good node to change, or the best of another family: of another first change."""
    if kind not in (Widening.OTHER_PARENT, Widening.OTHER_FAMILY):
        return selection
    node, family = selection.node, selection.node.id.lineage[1:2]
    others = [one for one in best_nodes(ask) if one.id not in (ask.root.id, node.id) and one.tree != node.tree]
    if kind is Widening.OTHER_FAMILY:
        others = [one for one in others if one.id.lineage[1:2] != family][:1]
    if not others:
        return selection
    return Selection(ask.rng.choice(others), f"progress has stopped: {kind}")


def _make_plan(
    ask: Ask,
    options: CodeOptions,
    selector: Selector,
    models: Sequence[ModelOption],
    pools: Pools | None,
) -> Plan:
    selection, wider = selector.select(ask), _wider(ask)
    if not selection.is_directed and options.parents == "best":
        selection = _widened(ask, selection, wider)
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
    choice = choose_arm(ask, options, usable or [Operator.DIFF], models, selection.operator, pools)
    if wider is Widening.DEAREST_MODEL and choice.arm.model and not options.weights:
        choice = dearest(ask, choice, models)
    arm = choice.arm
    plan = Plan(
        operator=arm.operator,
        parent=parent,
        parent_reason=selection.reason,
        inspirations=(),
        model=arm.model,
        arm_reason=choice.reason,
        batch=options.batch,
    )
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


def node_to_fix(ask: Ask) -> Node | None:
    """Return the newest of the recent nodes that failed and that nobody has tried to fix, or None."""
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


_MOST_CHILDREN = 64


def best_nodes(ask: Ask) -> list[Node]:
    """List the best nodes of the pool, the best first; the baseline may be one of them."""
    top = OperatorCredit.of(ask.history.runs[ask.run], ask.pool).top
    return [
        node
        for node in map(ask.history.__getitem__, top)
        if not node.files_removed and not exclusion(ask.history, node.id, ask.anchors.audits)
    ]


def partners(ask: Ask, parent: Node) -> list[Node]:
    """List nodes better than the baseline with other code, neither ancestors nor descendants of the parent."""
    return [
        node
        for node in itertools.takewhile(lambda node: node.id != ask.root.id, best_nodes(ask))
        if node.tree != parent.tree and not parent.id.is_within(node.id) and not node.id.is_within(parent.id)
    ]


def merge_partners(ask: Ask, parent: Node) -> list[Node]:
    """List nodes whose changes the parent may take over: neither it nor one of its children has them already."""
    history = ask.history
    known = {node for above in parent.id.lineage[1:] for node in history[above].merged}
    newest = range(parent.children, max(parent.children - _MOST_CHILDREN, 0), -1)
    known |= {node for number in newest for node in history[parent.id.child(number)].merged}
    return [node for node in _others(ask, parent) if node.id not in known and not node.files_removed]


def _others(ask: Ask, parent: Node) -> Iterable[Node]:
    pool = FrozenPool.of(ask.history.runs[ask.run])
    if not pool.base:
        return partners(ask, parent)
    first, *rest = (member.node for member in pool.members)
    return [ask.history[node] for node in rest if not first.is_within(node)]


# In a second stage the other node comes from the frozen pool, else it is one of the best nodes of the run.


_MOST_NAMED = 5
_LONGEST_SUMMARY = 160


def merge_proposal(ask: Ask, plan: Plan, merge: MergeFiles) -> Proposal | Refusal | None:
    """Let git merge the plan's two nodes; None if they conflict."""
    parent, other = plan.parent, plan.inspirations[0]
    names = parent.name, other.name
    merged = merge(_ancestor(ask, parent, other).commit, parent.commit, other.commit, names)
    if merged.conflicts:
        return None
    if not merged.edits:
        reason = f"{parent.name} holds the changes of {other.name} already"
        return Refusal(plan.operator, reason, Objection.DUPLICATE, arm_reason=plan.arm_reason)
    files = ", ".join(itertools.islice(sorted(merged.edits), _MOST_NAMED))
    return Proposal(
        plan.operator,
        parent.id,
        one_line(f"git merges {other.name}: {files}", _LONGEST_SUMMARY),
        edits=dict(merged.edits),
        inspirations=(other.id,),
        parent_reason=plan.parent_reason,
        arm_reason=plan.arm_reason,
        merged=(other.id,),
    )


def _ancestor(ask: Ask, parent: Node, other: Node) -> Node:
    """Find the newest node that both descend from. A second stage descends from the first node of its pool."""
    pool = FrozenPool.of(ask.history.runs[ask.run])
    ours: NodeId = pool.members[0].node if pool.base else parent.id
    common = [node for node in ours.lineage if other.id.is_within(node)]
    return ask.history[common[-1]]
