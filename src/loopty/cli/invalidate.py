"""`loopty invalidate`: reject a node that cheats."""

from __future__ import annotations

from loopty.cli import declare
from loopty.cli.output import NodeArgument, here, json_option, print_verdict_change, why_option
from loopty.domain.ids import NodeId


@declare.command("invalidate")
@declare.argument("node", type=NodeArgument())
@why_option
@json_option
def command(node: NodeId, why: str, as_json: bool) -> None:
    """Reject a node that cheats, with all its descendants: nothing that they measured counts, the record stays.

    The best node is chosen again from those still kept. Nodes that lost only to a withdrawn one are open again:
    `loopty remeasure` or `loopty optimize` judges them. `loopty restore` undoes this.
    """
    campaign = here()
    print_verdict_change(campaign, campaign.invalidate(node, why), as_json)
