"""`loopty apply`: a node's change on the user's own branch."""

from __future__ import annotations

import click

from loopty.cli.output import NodeArgument, here, json_option, print_integrity, print_json, say
from loopty.domain.ids import NodeId


@click.command("apply")
@click.argument("node", type=NodeArgument(), required=False)
@click.option("--branch", metavar="NAME", help="Name of the new branch. Default: loopty-best-ID.")
@click.option("--patch", is_flag=True, help="Apply the change to your working tree instead.")
@click.option("--force", is_flag=True, help="Move the branch if it already exists.")
@json_option
def command(node: NodeId | None, branch: str | None, patch: bool, force: bool, as_json: bool) -> None:
    """Bring a node's change to a branch of yours, or to your working tree. Default: the best node.

    The branch holds the whole change against the run's baseline as one commit: on top of your HEAD, or on top of
    the baseline if HEAD has other versions of the changed files. Your working tree, index and HEAD stay as they
    are; only --patch writes to the working tree, and only if the whole change applies.
    """
    campaign = here()
    node = node or campaign.find_node("best")
    if patch:
        campaign.patch_working_tree(node)
        if as_json:
            print_json({"node": node, "applied": "working tree"})
        else:
            click.echo(f"{node} applied to the working tree")
            print_integrity(campaign.node(node).outcome)
        return
    made = campaign.make_branch(node, branch, force)
    if as_json:
        outcome = campaign.node(node).outcome
        integrity = outcome.integrity if outcome else None
        print_json({"node": node, "branch": made.branch, "commit": made.commit, "integrity": integrity})
        return
    click.echo(f"branch {made.branch} holds {node}")
    print_integrity(campaign.node(node).outcome)
    say(f"look: git diff {made.onto[:12]} {made.branch}   take: git merge {made.branch}")
