"""`loopty status`: where the run stands."""

from __future__ import annotations

import click

from loopty.cli.output import columns, here, json_option, print_json, run_option, say, terminal

_CHECKED = 2_000
"""Events, and nodes. On a longer record, `report` and `apply` look at all of them; this verb stays fast."""


@click.command("status")
@run_option
@json_option
def command(run: int | None, as_json: bool) -> None:
    """Show where the run stands: the best node, the budget, running trials, and why it stopped."""
    from loopty.resident.client import here as here_to_meet
    from loopty.resident.server import process_number
    from loopty.views.verdict_tally import is_quick

    campaign = here()
    status = campaign.status(run)
    tally = campaign.tally(run) if is_quick(campaign.history) else None
    events, nodes = campaign.history.number, campaign.history.count
    flaw = campaign.flaw(_CHECKED, _CHECKED)
    found = campaign.explanation(str(status.run)) if status.without_baseline else None
    place = here_to_meet()
    resident = process_number(place) if place else None
    if as_json:
        from loopty.kit import codec

        checked = (
            {"flaw": flaw}
            if flaw
            else {"checked_events": min(events, _CHECKED), "checked_nodes": min(nodes, _CHECKED)}
        )
        cause = {"explanation": found.plain()} if found else {}
        running = {"resident": resident} if resident else {}
        print_json({**codec.plain(status), **codec.plain(tally or {}), **checked, **cause, **running})
        return
    if flaw:
        say(f"warning: {flaw}")
    elif events > _CHECKED:
        newest = f"the newest {_CHECKED:,} of {nodes:,} nodes" if nodes > _CHECKED else "every node"
        say(
            f"checked for edits by hand: what is shown here, {newest} and the newest {_CHECKED:,} of {events:,} "
            "events (`loopty report` checks all)"
        )
    from loopty.report.status_text import status_text

    click.echo(status_text(status, columns(), terminal(), tally, found))
    if resident:
        click.echo(f"  resident  process {resident} runs the verbs here; `loopty serve --stop` ends it")
