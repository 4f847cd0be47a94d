"""`loopty diff`: what a node changed."""

from __future__ import annotations

import click

from loopty.cli.output import NodeArgument, here, json_option, print_json, terminal
from loopty.domain.ids import NodeId


@click.command("diff")
@click.argument("node", type=NodeArgument())
@click.option("--baseline", is_flag=True, help="Compare with the run's baseline, not with the parent.")
@json_option
def command(node: NodeId, baseline: bool, as_json: bool) -> None:
    """Show what a node changed, as a patch."""
    found = here().diff(node, baseline, colour=terminal().colour and not as_json)
    if as_json:
        params = {name: {"before": one.before, "after": one.after} for name, one in found.params.items()}
        print_json({"node": node, "against": found.against, "patch": found.patch, "params": params})
        return
    for name, change in found.params.items():
        click.echo(f"# {name}: {change.before} → {change.after}")
    click.echo(found.patch, nl=False)
