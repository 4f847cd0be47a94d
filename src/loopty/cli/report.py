"""`loopty report`: the chart, the best, and what it took."""

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
    """Chart the score over the experiments, then the best of them, where the run stands and what it took.

    Results of other machines are not comparable, and stand apart.
    """
    from loopty.kit import codec
    from loopty.views.goodput import goodput
    from loopty.views.leaderboard import leaderboard
    from loopty.views.other_machines import other_cohorts
    from loopty.views.score_points import points
    from loopty.views.verdict_tally import tally

    found = history()
    number = newest_run(found, run)
    drawn, places, others = (
        points(found, number),
        leaderboard(found, number, top),
        other_cohorts(found, number, top),
    )
    status, counted = current_status(found, number), tally(found, number)
    came_to = goodput(found, found.runs[number], status.work_seconds)
    if as_json:
        standing = {**codec.plain(status), **codec.plain(counted)}
        parts = {"points": drawn, "best": places, "elsewhere": others, "goodput": came_to}
        print_json({"status": standing, **codec.plain(parts)})
        return
    from loopty.report.best_text import leaderboard_text, other_cohorts_text
    from loopty.report.chart import chart
    from loopty.report.goodput_text import goodput_text
    from loopty.report.status_text import status_text

    rows = min(max(shutil.get_terminal_size((80, 24)).lines - 8, 12), 24)
    texts = [
        chart(drawn, columns(), rows, look()),
        leaderboard_text(places, drawn.metric, columns(), look()),
        other_cohorts_text(others, drawn.metric, columns(), look()),
        status_text(status, columns(), look(), counted),
        goodput_text(came_to, columns(), look()),
    ]
    click.echo("\n\n".join(filter(None, texts)))
