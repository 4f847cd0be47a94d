"""`loopty replay`: measure a node again."""

from __future__ import annotations

import sys

import click

from loopty.cli.optimize import UNSAFE
from loopty.cli.output import NodeArgument, here, json_option, print_json
from loopty.core.ids import NodeId


@click.command("replay")
@click.argument("node", type=NodeArgument())
@json_option
@UNSAFE
def command(node: NodeId, as_json: bool, unsafe: bool) -> None:
    """Measure a node again from its commit, and compare with what was recorded.

    No proposer and no model is called. Exits with 1 when the result differs beyond the tolerance.
    """
    from loopty.assemble import Workshop
    from loopty.cli import by_hand
    from loopty.core.errors import Misuse
    from loopty.core.objective import gain
    from loopty.kit import codec

    workshop = Workshop.open(here())
    found = workshop.history[node]
    if found.outcome is None:
        raise Misuse(f"node {node} has no result to compare with: `loopty run {node}` first")
    outcome = by_hand.replayed(workshop, found, unsafe)
    then, now = found.outcome.metrics, outcome.metrics
    same = outcome.ending is found.outcome.ending
    if same and outcome.finished:
        metrics = workshop.history.metrics(found)
        same = gain(now, then, metrics).amount == 0
    if as_json:
        print_json({"node": node, "same": same, "then": codec.plain(found.outcome), "now": codec.plain(outcome)})
    else:
        ended = "" if outcome.finished else f": {outcome.ending}: {outcome.reason}"
        click.echo(f"{node} {'reproduced' if same else 'differs'}{ended}")
        for name in {**then, **now}:
            click.echo(f"  {name}: {_compared(then.get(name), now.get(name))}")
    sys.exit(0 if same else 1)


def _compared(then: float | None, now: float | None) -> str:
    share = f" ({100 * (now - then) / abs(then):+.2g} %)" if then and now is not None and now != then else ""
    return f"{'–' if then is None else then} then, {'–' if now is None else now} now{share}"
