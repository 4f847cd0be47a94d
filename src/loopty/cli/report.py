"""`loopty report`: the chart and the best."""

from __future__ import annotations

import shutil

import click

from loopty.cli.output import (
    columns,
    current_status,
    history,
    json_option,
    look,
    newest_run,
    print_json,
    run_option,
)


@click.command("report")
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    metavar="N",
    help="How many of the best to list.",
)
@run_option
@json_option
def command(top: int, run: int | None, as_json: bool) -> None:
    """Chart the score over the experiments, then the best of them and where the run stands."""
    from loopty.kit import codec
    from loopty.views.leaderboard import leaderboard
    from loopty.views.points import points

    found = history()
    number = newest_run(found, run)
    drawn, places = points(found, number), leaderboard(found, number, top)
    status = current_status(found, number)
    if as_json:
        print_json({"status": codec.plain(status), "points": codec.plain(drawn), "best": codec.plain(places)})
        return
    from loopty.report.best import leaderboard_text
    from loopty.report.chart import chart
    from loopty.report.status import status_text

    rows = min(max(shutil.get_terminal_size((80, 24)).lines - 8, 12), 24)
    click.echo(chart(drawn, columns(), rows, look()))
    click.echo()
    click.echo(leaderboard_text(places, drawn.metric, columns(), look()))
    click.echo()
    click.echo(status_text(status, columns(), look()))
