"""`loopty report`: the chart, the best nodes, and what the time gave."""

from __future__ import annotations

import shutil

import click

from loopty.cli.output import columns, here, json_option, print_json, run_option, terminal, unsafe_option
from loopty.cli.record_check import check_record
from loopty.kit.collection_pause import pause_collection

_MOST_DRAWN = 20_000
"""Points of the chart: it has a few thousand places for them."""
_CHECKED_NODES, _CHECKED_EVENTS = 20_000, 80_000
"""A longer record is checked as a whole only when asked: reading a million nodes takes half a minute."""


@click.command("report")
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    metavar="N",
    help="How many of the best nodes to list.",
)
@click.option(
    "--confirm",
    is_flag=True,
    help="First measure the best node beside the baseline in fresh pairs, so that the stated gain is of today.",
)
@click.option(
    "--slice",
    "parameter",
    metavar="NAME",
    help="The parameter to draw the scores against. Default: the most important one.",
)
@click.option(
    "--check",
    "everything",
    is_flag=True,
    help="Check every event and node for edits by hand, also of a record of more than 20,000 nodes.",
)
@unsafe_option
@run_option
@json_option
def command(
    top: int,
    run: int | None,
    confirm: bool,
    parameter: str | None,
    everything: bool,
    unsafe: bool,
    as_json: bool,
) -> None:
    """Chart the scores of the experiments; list the best nodes, the status, and how the time was spent.

    From 20 trials on, it also says how much of the score each parameter accounts for, and draws the scores against
    the most important one.

    Results from other machines are not comparable, so they are listed separately.
    """
    campaign = here()
    if confirm:
        campaign.confirm(run, unsafe)
    with pause_collection():
        found = campaign.report(run, top, parameter, None if as_json else _MOST_DRAWN)
    check = check_record(campaign, *(None, None) if everything else (_CHECKED_EVENTS, _CHECKED_NODES))
    if as_json:
        from loopty.kit import codec

        status = {**codec.plain(found.status), **codec.plain(found.tally)}
        parts = {
            "points": found.points,
            "best": found.best,
            "other_fingerprints": found.other_cohorts,
            "goodput": found.goodput,
            "importance": found.importance,
            "slice": found.slice,
        }
        print_json({"status": status, **codec.plain(parts), **check.plain})
        return
    check.say()
    from loopty.report.best_text import leaderboard_text, other_cohorts_text
    from loopty.report.chart import chart
    from loopty.report.goodput_text import goodput_text
    from loopty.report.importance_text import importance_text
    from loopty.report.slice_chart import slice_chart
    from loopty.report.status_text import status_text

    rows = min(max(shutil.get_terminal_size((80, 24)).lines - 8, 12), 24)
    texts = [
        chart(found.points, columns(), rows, terminal()),
        leaderboard_text(found.best, found.points.metric, columns(), terminal()) if top else "",
        importance_text(found.importance, columns(), terminal()),
        slice_chart(found.slice, columns(), rows // 2, terminal()) if found.slice else "",
        other_cohorts_text(found.other_cohorts, found.points.metric, columns(), terminal()),
        status_text(found.status, columns(), terminal(), found.tally),
        goodput_text(found.goodput, columns(), terminal()),
    ]
    click.echo("\n\n".join(filter(None, texts)))
