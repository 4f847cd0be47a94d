"""`loopty status`: where the run stands."""

from __future__ import annotations

import click

from loopty.cli.output import columns, here, json_option, print_json, run_option, terminal


@click.command("status")
@run_option
@json_option
def command(run: int | None, as_json: bool) -> None:
    """Show where the run stands: the best node, the budget, running trials, and why it stopped."""
    from loopty.views.verdict_tally import is_quick

    campaign = here()
    status = campaign.status(run)
    tally = campaign.tally(run) if is_quick(campaign.history) else None
    if as_json:
        from loopty.kit import codec

        print_json({**codec.plain(status), **codec.plain(tally or {})})
        return
    from loopty.report.status_text import status_text

    click.echo(status_text(status, columns(), terminal(), tally))
