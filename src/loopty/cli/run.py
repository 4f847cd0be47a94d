"""`loopty run`: the trial of a node made by hand."""

from __future__ import annotations

import sys

import click

from loopty.cli.optimize import UNSAFE
from loopty.cli.output import NodeArgument, here, json_option, print_json, say
from loopty.domain.ids import NodeId


@click.command("run")
@click.argument("node", type=NodeArgument())
@click.option(
    "--check",
    is_flag=True,
    help="Only prove the wiring: run the benchmark, change no state. Of a baseline: your files as they are now.",
)
@json_option
@UNSAFE
def command(node: NodeId, check: bool, as_json: bool, unsafe: bool) -> None:
    """Run a node: commit its files, score them in the sandbox, keep or discard.

    Exits with 1 when the trial gave no result.
    """
    from loopty.campaign import by_hand
    from loopty.campaign.campaign import Campaign
    from loopty.domain.outcome import Ending
    from loopty.kit import codec
    from loopty.taskfile.unused_roles import idle_roles

    campaign = Campaign.open(here())
    first = node == "1" and not campaign.history.runs
    if check:
        for words in idle_roles(campaign.task).values():
            say(words)
        outcome = (
            by_hand.checked_baseline(campaign, unsafe)
            if node.parent is None
            else by_hand.checked(campaign, by_hand.as_it_is(campaign, campaign.history[node]), unsafe)
        )
        missing = by_hand.wrong_with(campaign, outcome)
        if as_json:
            print_json({"node": node, "ok": missing is None, "reason": missing or "", **codec.plain(outcome)})
        else:
            scores = ", ".join(f"{name} {value:g}" for name, value in outcome.metrics.items())
            say(f"check failed: {missing}" if missing else f"check passed in {outcome.seconds:.2f} s")
            if not missing:
                click.echo(scores)
            elif outcome.ending is Ending.CANCELLED:
                say(f"again: loopty run {node} --check")
        sys.exit(1 if missing else 0)
    if first:
        node = campaign.history.runs[campaign.enter_run(False, say)].root
    judged = by_hand.decided(campaign, campaign.history[node], unsafe, say)
    if as_json:
        print_json(codec.plain(judged))
    else:
        click.echo(f"{node} {judged.verdict or 'stopped'}: {judged.reason or 'it goes on with `loopty run`'}")
    sys.exit(0 if judged.outcome and judged.outcome.is_finished else 1)
