"""`loopty diff`: what a node changed."""

from __future__ import annotations

from loopty.cli import declare
from loopty.cli.output import NodeArgument, here, json_option, print_json, say, terminal
from loopty.domain.ids import NodeId


@declare.command("diff")
@declare.argument("node", type=NodeArgument())
@declare.option("--baseline", is_flag=True, help="Compare with the run's baseline, not with the parent.")
@json_option
def command(node: NodeId, baseline: bool, as_json: bool) -> None:
    """Show what a node changed, as a patch."""
    campaign = here()
    found = campaign.diff(node, baseline)
    if as_json:
        params = {name: {"before": one.before, "after": one.after} for name, one in found.params.items()}
        names = {"node": node, "handle": campaign.history.handle(node), "against": found.against}
        print_json({**names, "patch": found.patch, "params": params})
        return
    if draft := campaign.draft_folder(node):
        name = campaign.history.name(node)
        say(f"{name} is a draft: its change is not recorded yet, and its files are in {draft}")
    from loopty.report.columns import printable_line
    from loopty.report.diff_text import diff_text
    from loopty.report.figures import value_text

    for name, change in found.params.items():
        declare.echo(printable_line(f"# {name}: {value_text(change.before)} → {value_text(change.after)}"))
    declare.echo(diff_text(found.patch, terminal()), nl=False)
