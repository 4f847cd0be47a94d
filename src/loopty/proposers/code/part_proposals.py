"""A part of an earlier change as a proposal, which asks no model."""

from __future__ import annotations

from loopty.domain.proposal import Proposal
from loopty.proposers.code.part_finder import ALONE, WITHOUT, FoundPart
from loopty.proposers.code.plan import Plan


def part_proposal(plan: Plan, found: FoundPart) -> Proposal:
    """What was found, as a change of the plan's parent."""
    source = found.source.name
    which, place = f"part {found.number} of {found.count}", f"{found.part.path}, line {found.part.start + 1}"
    what = f"{source} without {which}" if found.is_left_out else f"{which} of {source}"
    return Proposal(
        WITHOUT if found.is_left_out else ALONE,
        plan.parent.id,
        f"{what}: {place}",
        edits=found.edits,
        inspirations=(found.source.id,),
        parent_reason=plan.parent_reason,
        arm_reason=f"{plan.arm_reason}; expected gain {found.expected:+.3g}, by what {source} and its parts did",
    )
