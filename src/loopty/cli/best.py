"""`loopty best`: the best node."""

from __future__ import annotations

import json
import sys

import click

from loopty.cli.output import columns, history, json_option, look, newest_run, run_option, say


@click.command("best")
@click.option("--top", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="How many.")
@run_option
@json_option
def command(top: int, run: int | None, as_json: bool) -> None:
    """Name the best node; with --top N the N best of all pools. Exits with 1 when there is no result yet."""
    from loopty.core.outcome import Pool

    found = history()
    number = newest_run(found, run)
    if top == 1:
        best = found.runs[number].account(Pool.ATTEMPT).best
        if best is None:
            say("there is no result yet")
            sys.exit(1)
        score = found.score(found[best])
        click.echo(found.page(best) if as_json else f"{best} {score!r}")
        return
    from loopty.report.best import leaderboard_text
    from loopty.views.leaderboard import leaderboard

    places = leaderboard(found, number, top)
    if as_json:
        for place in places:
            click.echo(json.dumps({"rank": place.rank, **json.loads(found.page(place.node.id))}))
        return
    metrics = found.metrics(found[found.runs[number].root])
    click.echo(leaderboard_text(places, metrics[0].name if metrics else "score", columns(), look()))
