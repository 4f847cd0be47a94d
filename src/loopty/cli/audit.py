"""`loopty audit`: score nodes on the held-out split."""

from __future__ import annotations

import sys

import click

from loopty.cli import output
from loopty.cli.optimize import UNSAFE
from loopty.cli.output import NodeArgument, here, json_option, newest_run, print_json, run_option, say
from loopty.domain.ids import NodeId


@click.command("audit")
@click.argument("nodes", type=NodeArgument(), nargs=-1)
@click.option("--list", "listed", is_flag=True, help="Show earlier audits, and look at nothing.")
@run_option
@json_option
@UNSAFE
def command(nodes: tuple[NodeId, ...], listed: bool, run: int | None, as_json: bool, unsafe: bool) -> None:
    """Score nodes on the held-out split of [audit], which nothing of the search sees. Default: the best node.

    The baseline comes first where it has no score there yet. Every look at the split is counted. Exits with 1 when
    what was audited gave no score, or looks wrong.
    """
    from loopty.campaign import audits
    from loopty.campaign.campaign import Campaign
    from loopty.domain.errors import Misuse
    from loopty.kit import codec
    from loopty.report.audits_text import audits_text

    campaign = Campaign.open(here())
    number = newest_run(campaign.history, nodes[0].run if nodes else run)
    if any(node.run != number for node in nodes):
        raise Misuse("an audit is of one run: audit the nodes of another run by themselves")
    if unsafe and not listed:
        say("warning: no sandbox; candidates run with all your rights")
    looks = 0 if listed else audits.look(campaign, number, nodes, unsafe, say)
    rows = audits.found(campaign, number)
    if as_json:
        print_json([{**codec.plain(row), "gap": row.gap, "flags": codec.plain(row.flags)} for row in rows])
    else:
        click.echo(audits_text(rows, output.columns(), output.look()))
    sys.exit(1 if any(row.ended or row.flags for row in rows[len(rows) - looks :]) else 0)
