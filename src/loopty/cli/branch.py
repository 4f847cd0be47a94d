"""`loopty branch`: a git branch of a node."""

from __future__ import annotations

from loopty.cli import declare
from loopty.cli.output import NodeArgument, here, json_option, print_json, say
from loopty.domain.ids import NodeId


@declare.command("branch")
@declare.argument("node", type=NodeArgument())
@declare.option("--name", metavar="NAME", help="Name of the branch. Default: loopty- and its path.")
@declare.option("--force", is_flag=True, help="Move the branch if it already exists.")
@json_option
def command(node: NodeId, name: str | None, force: bool, as_json: bool) -> None:
    """Make a git branch of a node: its exact files, as they were measured.

    loopty keeps the commits of nodes under refs/loopty/, so that your list of branches stays yours.
    `git config loopty.branches true` gives every new node a branch.

    To bring a change to your own branch, use `loopty apply`.
    """
    campaign = here()
    made = campaign.make_node_branch(node, name, force)
    if as_json:
        handle = campaign.history.handle(node)
        print_json({"node": node, "handle": handle, "branch": made.branch, "commit": made.commit})
        return
    declare.echo(f"branch {made.branch} is at {made.commit}")
    say(f"look: git log -p {made.branch}   remove: git branch -D {made.branch}")
