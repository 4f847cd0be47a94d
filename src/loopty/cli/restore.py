"""`loopty restore`: take a discard or an invalidation back."""

from __future__ import annotations

from loopty.cli import declare
from loopty.cli.output import NodeArgument, here, json_option, print_verdict_change, unsafe_option, why_option
from loopty.domain.ids import NodeId


@declare.command("restore")
@declare.argument("node", type=NodeArgument())
@why_option
@json_option
@unsafe_option
def command(node: NodeId, why: str, as_json: bool, unsafe: bool) -> None:
    """Take back that a node was discarded or invalidated by hand, with the descendants invalidated with it.

    Nothing is kept by this verb: a node that was kept waits for a verdict again, and has to win once more against
    the present best; `loopty remeasure` or `loopty optimize` measures it. Other nodes get their old verdicts back.
    What a gate or a measurement took back stays.
    """
    campaign = here()
    print_verdict_change(campaign, campaign.restore(node, why, unsafe), as_json)
