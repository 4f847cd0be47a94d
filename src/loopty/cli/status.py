"""`loopty status`: where the run stands."""

from __future__ import annotations

import click

from loopty.cli.output import columns, here, json_option, print_json, run_option, say, terminal


@click.command("status")
@run_option
@json_option
def command(run: int | None, as_json: bool) -> None:
    """Show where the run stands: the best node, the budget, running trials, and why it stopped."""
    from loopty.views.verdict_tally import is_quick

    campaign = here()
    status = campaign.status(run)
    # On a long record, `report` and `apply` look at every event; this verb stays fast.
    tally, flaw = (campaign.tally(run), campaign.flaw()) if is_quick(campaign.history) else (None, None)
    found = campaign.explanation(str(status.run)) if status.without_baseline else None
    if as_json:
        from loopty.kit import codec

        more = {**({"flaw": flaw} if flaw else {}), **({"explanation": found.plain()} if found else {})}
        print_json({**codec.plain(status), **codec.plain(tally or {}), **more})
        return
    if flaw:
        say(f"warning: {flaw}")
    from loopty.report.status_text import status_text

    click.echo(status_text(status, columns(), terminal(), tally, found))
