"""`loopty spend`: what models cost."""

from __future__ import annotations

from loopty.cli import declare
from loopty.cli.output import columns, here, json_option, print_json, run_option, terminal
from loopty.kit.records import as_dict


@declare.command("spend")
@declare.option(
    "--by",
    type=declare.kind_of_click("Choice", ["role", "model", "operator", "node"]),
    help="Show only this table.",
)
@run_option
@json_option
def command(by: str | None, run: int | None, as_json: bool) -> None:
    """Show what models cost: tokens and money by role, model, operator and node, and calls without a result.

    Nodes from one reply share its cost. Where a price is unknown, only tokens are counted.
    """
    campaign = here()
    found = campaign.spend(run)
    if as_json:
        print_json(as_dict(found))
        return
    from loopty.report.spend_text import spend_text

    declare.echo(spend_text(found, by, columns(), terminal(), campaign.history.name))
