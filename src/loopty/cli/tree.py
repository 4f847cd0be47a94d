"""`loopty tree`: the tree of experiments."""

from __future__ import annotations

import click

from loopty.cli.output import NodeArgument, columns, history, json_option, look, newest_run, run_option
from loopty.domain.ids import NodeId


@click.command("tree")
@click.argument("node", type=NodeArgument(), required=False)
@click.option("--all", "everything", is_flag=True, help="Show every node, however many there are.")
@run_option
@json_option
def command(node: NodeId | None, everything: bool, run: int | None, as_json: bool) -> None:
    """Show the tree of experiments, from NODE down or of the newest run.

    Of a large tree it shows the best path, what was kept and what is new; --all shows the rest. With --json it
    prints every node, one line each.
    """
    found = history()
    top = found[node or NodeId(str(newest_run(found, run)))].id
    if as_json:
        below = f"{top}."
        for each in found.ids:
            if each == top or each.startswith(below):
                click.echo(found.page(each))
        return
    from loopty.report.tree_text import tree_text
    from loopty.views.node_tree import LIMIT, tree

    click.echo(tree_text(tree(found, top, None if everything else LIMIT), columns(), look()))
