"""`loopty ledger`: where the record of this repository is kept."""

from __future__ import annotations

import click

from loopty.cli.output import here, json_option, print_json


@click.command("ledger")
@click.argument("url", required=False)
@click.option("--own", is_flag=True, help="Go back to the file in this repository.")
@json_option
def command(url: str | None, own: bool, as_json: bool) -> None:
    """Show or choose where the record of this repository is kept.

    Without a choice it is a file in the git directory, for the processes of this machine. A ledger on a PostgreSQL
    server (URL: postgresql://host/database) serves drivers on many machines; `?ledger=NAME` keeps several in one
    database. LOOPTY_LEDGER names one for a single shell. The password comes from PGPASSWORD or ~/.pgpass.
    """
    if url and own:
        raise click.UsageError("name a URL or --own, not both")
    choice = here().ledger_choice()
    if url:
        choice.choose(url)
    elif own:
        choice.forget()
    place = choice.place()
    if as_json:
        print_json({"url": place.url, "source": place.source, "runs": place.runs})
        return
    reasons = {"environment": " (from LOOPTY_LEDGER)", "repository": " (chosen here)", "default": ""}
    click.echo(f"{place.url}{reasons[place.source]}: {place.runs} {'run' if place.runs == 1 else 'runs'}")
