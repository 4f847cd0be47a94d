"""Turns a checked reply of a model into suggestions."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.domain.proposal import Edits, Proposal, Refusal
from loopty.engine.protocols import Ask
from loopty.kit.records import Record
from loopty.proposers.code import code_replies
from loopty.proposers.code.code_options import Operator
from loopty.proposers.code.plan import Plan
from loopty.proposers.code.reply_faults import ProposalFault
from loopty.record.node_record import Node

_MAX_CHILDREN = 16


class CheckedReply(Record):
    """The items of a reply, and the edits or fault of each up to the first usable one."""

    items: Sequence[code_replies.ReplyItem]
    results: Sequence[Edits | ProposalFault]

    @property
    def fault(self) -> ProposalFault | None:
        """The fault of the first item when no item is usable, or None."""
        first = self.results[0]
        return first if isinstance(first, ProposalFault) and isinstance(self.results[-1], ProposalFault) else None


def make_suggestion(
    plan: Plan,
    item: code_replies.ReplyItem,
    edits: Edits | ProposalFault,
    calls: tuple[str, ...],
    remaining: int,
    index: int,
) -> Proposal | Refusal:
    if isinstance(edits, ProposalFault):
        reason, objection = edits.reason, edits.objection
        return Refusal(plan.operator, reason, objection, calls, remaining, index, plan.arm_reason)
    return Proposal(
        plan.operator,
        plan.parent.id,
        code_replies.summary(item, edits),
        edits=edits,
        inspirations=tuple(node.id for node in plan.inspirations),
        calls=calls,
        remaining_in_reply=remaining,
        index_in_reply=index,
        parent_reason=plan.parent_reason,
        arm_reason=plan.arm_reason,
        merged=tuple(node.id for node in plan.inspirations) if plan.operator is Operator.MERGE else (),
    )


def inspirations_of(ask: Ask, parent: Node, call: str) -> tuple[Node, ...]:
    """The other nodes in a call's prompt, read from an earlier node of the same call; empty if there is none."""
    newest = ask.history[parent.id].children
    for number in range(newest, max(newest - _MAX_CHILDREN, 0), -1):
        child = ask.history[parent.id.child(number)]
        if call in child.calls:
            return tuple(map(ask.history.__getitem__, child.inspirations))
    return ()
