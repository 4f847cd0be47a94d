"""`loopty best`: the best node."""

from __future__ import annotations

import json
import sys
from typing import NoReturn

import click

from loopty.cli.output import columns, history, json_option, look, newest_run, run_option, say
from loopty.record.cohorts import Cohorts
from loopty.record.verdicts import Incumbents


@click.command("best")
@click.option("--top", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="How many.")
@run_option
@json_option
def command(top: int, run: int | None, as_json: bool) -> None:
    """Name the best node; with --top N the N best of all pools.

    Exits with 1 when the run has no result, and with 2 when nothing has run yet.

    Results of other machines than the present one are not comparable: they stand apart, and not in the JSON.
    """
    from loopty.domain.pool import Pool
    from loopty.views.comparable import score

    found = history()
    number = newest_run(found, run)
    if top == 1:
        best = Incumbents.of(found.runs[number], Pool.ATTEMPT).best
        if best is None:
            _leave_without_result()
        here = score(found, found[best], Cohorts.of(found.runs[number]).fingerprint)
        click.echo(found.page(best) if as_json else f"{best} {here!r}")
        return
    from loopty.report.best_text import leaderboard_text, other_cohorts_text
    from loopty.views.leaderboard import leaderboard
    from loopty.views.other_machines import other_cohorts

    places = leaderboard(found, number, top)
    if not places:
        _leave_without_result()
    if as_json:
        for place in places:
            ranked = {"rank": place.rank, "score": place.score}
            click.echo(json.dumps({**ranked, **json.loads(found.page(place.node.id))}))
        return
    metrics = found.metrics(found[found.runs[number].root])
    metric = metrics[0].name if metrics else "score"
    parts = [
        leaderboard_text(places, metric, columns(), look()),
        other_cohorts_text(other_cohorts(found, number, top), metric, columns(), look()),
    ]
    click.echo("\n\n".join(filter(None, parts)))


def _leave_without_result() -> NoReturn:
    say("there is no result yet")
    sys.exit(1)
