"""`loopty rebaseline`: go on with a run on another machine."""

from __future__ import annotations

import sys

import click

from loopty.cli.optimize import UNSAFE
from loopty.cli.output import here, json_option, newest_run, print_json, run_option, say
from loopty.record.cohorts import Cohorts


@click.command("rebaseline")
@run_option
@json_option
@UNSAFE
def command(run: int | None, as_json: bool, unsafe: bool) -> None:
    """Measure the baseline and the best node on this machine, and compare from here on with that.

    Results of different machines are never ranked together: those from before stay, as a cohort of their own.
    Stopped in the middle, it goes on where it was.
    """
    from loopty.campaign import by_hand
    from loopty.campaign.campaign import Campaign

    campaign = Campaign.open(here())
    found = campaign.history.runs[newest_run(campaign.history, run)]
    moved = by_hand.rebaselined(campaign, found, unsafe)
    if moved is None:
        say("stopped; `loopty rebaseline` goes on from here")
        sys.exit(1)
    history = campaign.history
    machine = Cohorts.of(history.runs[found.number]).machines[moved.fingerprint]
    here_now = history[moved.incumbent].result(moved.fingerprint)
    score = here_now.outcome.metrics[history.counting_metrics(found.number)[0].name] if here_now else None
    if as_json:
        print_json(
            {
                "run": found.number,
                "fingerprint": moved.fingerprint,
                "machine": dict(machine),
                "incumbent": moved.incumbent,
                "score": score,
            }
        )
        return
    click.echo(f"{moved.incumbent} {score!r}")
    say(f"run {found.number} goes on here, with {moved.incumbent} as the one to beat: loopty optimize")
