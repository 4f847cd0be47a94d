"""`loopty drop`: give up a draft."""

from __future__ import annotations

from loopty.cli import declare
from loopty.cli.output import NodeArgument, here, json_option, print_json
from loopty.domain.ids import NodeId


@declare.command("drop")
@declare.argument("node", type=NodeArgument())
@json_option
def command(node: NodeId, as_json: bool) -> None:
    """Give up a draft: its folder is removed, and it never runs. Its id stays in the tree."""
    campaign = here()
    campaign.drop(node)
    handle = campaign.history.handle(node)
    if as_json:
        print_json({"node": node, "handle": handle, "dropped": True})
        return
    declare.echo(f"dropped {campaign.history.name(node)}")
