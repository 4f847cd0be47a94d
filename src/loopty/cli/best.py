"""`loopty best`: the best node."""

from __future__ import annotations

import json
import sys
from typing import NoReturn

import click

from loopty.cli.output import columns, here, json_option, print_json_text, run_option, say, terminal


@click.command("best")
@click.option(
    "--top", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="How many nodes to list."
)
@run_option
@json_option
def command(top: int, run: int | None, as_json: bool) -> None:
    """Print the best node and its score; with --top N the N best nodes, those of the control included.

    Exits with 1 when the run has no result, and with 2 when there is no run yet.

    Results from other machines are not comparable: they are listed separately, and --json leaves them out.
    """
    from loopty.record.cohorts import Cohorts
    from loopty.views.comparable import score

    campaign = here()
    history, number = campaign.history, campaign.newest_run(run)
    if top == 1:
        best = campaign.best(number)
        if best is None:
            _exit_without_result()
        value = score(history, history[best], Cohorts.of(history.runs[number]).fingerprint)
        if as_json:
            print_json_text(history.page(best))
        else:
            click.echo(f"{best} {value!r}")
        return
    from loopty.report.best_text import leaderboard_text, other_cohorts_text
    from loopty.views.other_machines import other_cohorts

    rows = campaign.leaderboard(top, number)
    if not rows:
        _exit_without_result()
    if as_json:
        for row in rows:
            ranked = {"rank": row.rank, "score": row.score}
            print_json_text(json.dumps({**ranked, **json.loads(history.page(row.node.id))}))
        return
    metrics = history.metrics(history[history.runs[number].root])
    metric = metrics[0].name if metrics else "score"
    parts = [
        leaderboard_text(rows, metric, columns(), terminal()),
        other_cohorts_text(other_cohorts(history, number, top), metric, columns(), terminal()),
    ]
    click.echo("\n\n".join(filter(None, parts)))


def _exit_without_result() -> NoReturn:
    say("there is no result yet")
    sys.exit(1)
