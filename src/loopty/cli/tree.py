"""`loopty tree`: the tree of experiments."""

from __future__ import annotations

import click

from loopty.cli.output import NodeArgument, columns, here, json_option, print_json_text, run_option, terminal
from loopty.domain.ids import NodeId


@click.command("tree")
@click.argument("node", type=NodeArgument(), required=False)
@click.option("--all", "everything", is_flag=True, help="Show every node.")
@run_option
@json_option
def command(node: NodeId | None, everything: bool, run: int | None, as_json: bool) -> None:
    """Show the tree of experiments below NODE, or of the newest run.

    In a large tree, only the path to the best node, the kept nodes and the newest nodes are shown, unless --all is
    given. --json prints every node, one per line.
    """
    campaign = here()
    top = campaign.node(node or str(campaign.newest_run(run))).id
    if as_json:
        below = f"{top}."
        for each in campaign.history.ids:
            if each == top or each.startswith(below):
                print_json_text(campaign.history.page(each))
        return
    from loopty.report.tree_text import tree_text
    from loopty.views.node_tree import LIMIT

    click.echo(tree_text(campaign.tree(top, None if everything else LIMIT), columns(), terminal()))
