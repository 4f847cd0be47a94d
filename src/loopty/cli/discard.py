"""`loopty discard`: take back that a node was kept."""

from __future__ import annotations

from loopty.cli import declare
from loopty.cli.output import NodeArgument, here, json_option, print_verdict_change, why_option
from loopty.domain.ids import NodeId


@declare.command("discard")
@declare.argument("node", type=NodeArgument())
@why_option
@json_option
def command(node: NodeId, why: str, as_json: bool) -> None:
    """Take back that a node was kept. Its record, its result and its descendants stay.

    The best node is elected anew from those that are still kept. Nodes that lost only against a withdrawn one are
    without a verdict again: `loopty remeasure` or `loopty optimize` judges them. `loopty restore` takes this
    back.
    """
    campaign = here()
    print_verdict_change(campaign, campaign.discard(node, why), as_json)
