"""`loopty best`: the best node."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from loopty.cli import declare
from loopty.cli.output import (
    columns,
    here,
    json_option,
    print_json_text,
    run_option,
    say,
    say_control,
    say_failed_baseline,
    say_run_without_result,
    terminal,
)
from loopty.domain.objective import score_metric

if TYPE_CHECKING:
    from loopty.campaign.campaign import Campaign
    from loopty.domain.ids import NodeId


@declare.command("best")
@declare.option(
    "--top",
    type=declare.kind_of_click("IntRange", min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="How many nodes to list.",
)
@run_option
@json_option
def command(top: int, run: int | None, as_json: bool) -> None:
    """Print the best node and its score; with --top N the N best of the kept nodes, those of the control included.

    Exits with 1 when the run has no result, and with 2 when there is no run yet.

    Results from other machines are not comparable: they are listed separately, and --json leaves them out.
    """
    from loopty.record.cohorts import Cohorts
    from loopty.views.comparable import score

    campaign = here()
    history, number = campaign.history, campaign.newest_run(run)
    say_run_without_result(campaign, number, run)
    if top == 1:
        best = campaign.best(number)
        if best is None:
            _exit_without_result(campaign, number)
        value = score(history, history[best], Cohorts.of(history.runs[number]).fingerprint)
        say_control(campaign, number)
        if as_json:
            _print_row(campaign, best, 1, value)
        else:
            from loopty.report.score_text import ScoreText

            assert value is not None, "the best node has a score"
            declare.echo(f"{history.name(best)} {ScoreText.of_run(campaign.status(number)).score(value)}")
        return
    from loopty.report.best_text import leaderboard_text, other_cohorts_text
    from loopty.views.other_machines import other_cohorts

    rows = campaign.leaderboard(top, number)
    if not rows:
        _exit_without_result(campaign, number)
    if as_json:
        for row in rows:
            _print_row(campaign, row.node.id, row.rank, row.score)
        return
    metrics = history.metrics(history[history.runs[number].root])
    metric = score_metric(metrics).name if metrics else "score"
    parts = [
        leaderboard_text(rows, metric, columns(), terminal()),
        other_cohorts_text(other_cohorts(history, number, top), metric, columns(), terminal()),
    ]
    declare.echo("\n\n".join(filter(None, parts)))


def _print_row(campaign: Campaign, node: NodeId, rank: int, score: float | None) -> None:
    """Print the node as JSON: the same keys for every node, of code or of parameters, one or several."""
    from loopty.kit import codec

    history = campaign.history
    metrics, root = history.metrics(history[node]), history[history.runs[node.run].root]
    row: dict[str, Any] = {
        "rank": rank,
        "score": score,
        "metric": score_metric(metrics).name if metrics else None,
        "edited": history[node].tree != root.tree,
    }
    print_json_text(json.dumps({**row, **codec.every_field(history[node])}))


def _exit_without_result(campaign: Campaign, run: int) -> NoReturn:
    say("there is no result yet")
    say_failed_baseline(campaign, run)
    sys.exit(1)
