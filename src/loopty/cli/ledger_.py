"""`loopty ledger`: where the record of this repository is kept, and the files that clones share."""

from __future__ import annotations

import click

from loopty.cli.output import here, json_option, print_json


@click.command("ledger")
@click.argument("url", required=False)
@click.option("--own", is_flag=True, help="Go back to the file in this repository.")
@click.option(
    "--store", metavar="PLACE", help="Share the files of nodes here: a directory, or s3://BUCKET/PREFIX."
)
@click.option("--no-store", is_flag=True, help="Share no files of nodes any more.")
@click.option("--send", is_flag=True, help="Send now what the store has not got yet.")
@json_option
def command(url: str | None, own: bool, store: str | None, no_store: bool, send: bool, as_json: bool) -> None:
    """Show or choose where the record of this repository is kept.

    Without a choice it is a file in the git directory, for the processes of this machine. A ledger on a PostgreSQL
    server (URL: postgresql://host/database) serves drivers on many machines; `?ledger=NAME` keeps several in one
    database. LOOPTY_LEDGER names one for a single shell. The password comes from PGPASSWORD or ~/.pgpass.

    Drivers with clones of their own also need each other's files: commits, logs, traces, artifacts. They share
    them through a store, which each clone names once (or LOOPTY_STORE for a single shell).
    """
    if url and own:
        raise click.UsageError("name a URL or --own, not both")
    if store and no_store:
        raise click.UsageError("name --store or --no-store, not both")
    campaign = here()
    choice = campaign.ledger_choice()
    if store:
        choice.choose_store(store)
    elif no_store:
        choice.forget_store()
    if url:
        choice.choose(url)
    elif own:
        choice.forget()
    if send:
        campaign.send_files()
    place, shared = choice.place(), campaign.store_standing()
    if as_json:
        from loopty.kit import codec

        sharing = {"store": codec.plain(shared)} if shared else {}
        print_json({"url": place.url, "source": place.source, "runs": place.runs, **sharing})
        return
    reasons = {"environment": " (from LOOPTY_LEDGER)", "repository": " (chosen here)", "default": ""}
    click.echo(f"{place.url}{reasons[place.source]}: {place.runs} {'run' if place.runs == 1 else 'runs'}")
    if shared:
        from loopty.report.store_text import store_line

        click.echo(f"store {store_line(shared.place, shared.unsent, shared.unsent_bytes, shared.fault)}")
