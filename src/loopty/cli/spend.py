"""`loopty spend`: what models cost."""

from __future__ import annotations

import dataclasses

import click

from loopty.cli.output import columns, here, history, json_option, look, newest_run, print_json, run_option


@click.command("spend")
@click.option("--by", type=click.Choice(["role", "model", "operator", "node"]), help="Show this table alone.")
@run_option
@json_option
def command(by: str | None, run: int | None, as_json: bool) -> None:
    """Show what models cost: tokens and money by role, model, operator and node, and what was in vain.

    Nodes that came from one reply share its cost. Where a price is not known, only tokens are counted.
    """
    from loopty.campaign.saved_state import found_state
    from loopty.domain.errors import Misuse
    from loopty.ledgers.sqlite import SqliteLedger
    from loopty.models.prices import free_model_check
    from loopty.taskfile.read import load
    from loopty.views.model_spend import spend

    number, state = newest_run(history(), run), found_state(here())
    events = SqliteLedger(state.ledger).read()
    try:
        task = load(state.top)
    except Misuse:  # the ledger can be read without it
        found = spend(events, number, free_model_check({}))
    else:
        found = spend(events, number, free_model_check(task.models), task.pools, task.roles)
    if as_json:
        print_json(dataclasses.asdict(found))
        return
    from loopty.report.spend_text import spend_text

    click.echo(spend_text(found, by, columns(), look()))
