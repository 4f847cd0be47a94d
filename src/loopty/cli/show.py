"""`loopty show`: everything about a node."""

from __future__ import annotations

import json

import click

from loopty.cli.output import NodeArgument, columns, here, history, json_option, look, print_json
from loopty.core.ids import NodeId


@click.command("show")
@click.argument("node", type=NodeArgument())
@json_option
def command(node: NodeId, as_json: bool) -> None:
    """Show everything about a node: change, parameters, metrics, verdict, and where its files are."""
    from loopty.reading import found_state
    from loopty.views.detail import detail

    found = history()
    folder = found_state(here()).node(node)
    known = detail(found, node)
    if as_json:
        print_json({**json.loads(found.page(node)), "branch": node.branch, "folder": str(folder)})
        return
    from loopty.report.node import node_text

    click.echo(node_text(known, str(folder), columns(), look()))
