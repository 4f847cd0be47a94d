"""`loopty diff`: what a node changed."""

from __future__ import annotations

import click

from loopty.cli.output import NodeArgument, here, json_option, look, print_json
from loopty.domain.ids import NodeId


@click.command("diff")
@click.argument("node", type=NodeArgument())
@click.option("--baseline", is_flag=True, help="Against the run's baseline instead of the parent.")
@json_option
def command(node: NodeId, baseline: bool, as_json: bool) -> None:
    """Show what a node changed, as a patch."""
    from loopty.campaign.saved_state import found_state, read_history
    from loopty.workspaces.repository import Repository

    history = read_history(here())
    found = history[node]
    against = history.runs[node.run].root if baseline else node.parent or node
    other = history[against]
    repository = Repository.open(found_state(here()).top)
    patch = repository.diff(other.commit, found.commit, colour=look().colour and not as_json)
    changed = {
        name: {"before": other.params.get(name), "after": found.params.get(name)}
        for name in {**other.params, **found.params}
        if other.params.get(name) != found.params.get(name)
    }
    if as_json:
        print_json({"node": node, "against": against, "patch": patch, "params": changed})
        return
    for name, values in changed.items():
        click.echo(f"# {name}: {values['before']} → {values['after']}")
    click.echo(patch, nl=False)
