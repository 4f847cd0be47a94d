"""`loopty accept`: keep a node that was held."""

from __future__ import annotations

from loopty.cli import declare
from loopty.cli.output import NodeArgument, here, say
from loopty.domain.ids import NodeId


@declare.command("accept")
@declare.argument("node", type=NodeArgument())
@declare.option("--why", required=True, metavar="TEXT", help="Why its gain is real; it becomes the node's reason.")
def command(node: NodeId, why: str) -> None:
    """Keep NODE, which was held because its gain is too good to be true and it could have cheated.

    Look at its change first: loopty diff NODE.
    """
    campaign = here()
    campaign.accept(node, why)
    say(f"{campaign.history.name(node)} is kept and the best of its run now")
