"""`loopty node approve`, `discard`, `invalidate`, `restore`, `remeasure`: verdicts that a person changes."""

from __future__ import annotations

import sys

import click

from loopty.cli.output import (
    NodeArgument,
    echo,
    here,
    json_option,
    print_json,
    print_verdict_change,
    run_option,
    say,
    unsafe_option,
    why_option,
)
from loopty.domain.ids import NodeId
from loopty.kit import codec


@click.command("accept")
@click.argument("node", type=NodeArgument())
@click.option("--why", required=True, metavar="TEXT", help="Why its gain is real; it becomes the node's reason.")
def accept_verb(node: NodeId, why: str) -> None:
    """Keep NODE, which was held because its gain is too good to be true and it could have cheated.

    Look at its change first: loopty diff NODE.
    """
    campaign = here()
    campaign.accept(node, why)
    say(f"{campaign.history.name(node)} is kept and the best of its run now")


@click.command("discard")
@click.argument("node", type=NodeArgument())
@why_option
@json_option
def discard_verb(node: NodeId, why: str, as_json: bool) -> None:
    """Take back that a node was kept. Its record, its result and its descendants stay.

    The best node is elected anew from those that are still kept. Nodes that lost only against a withdrawn one are
    without a verdict again: `loopty node recheck` or `loopty run` judges them. `loopty node undo` takes this
    back.
    """
    campaign = here()
    print_verdict_change(campaign, campaign.discard(node, why), as_json)


@click.command("invalidate")
@click.argument("node", type=NodeArgument())
@why_option
@json_option
def invalidate_verb(node: NodeId, why: str, as_json: bool) -> None:
    """Reject a node that cheats, with all its descendants: nothing that they measured counts, the record stays.

    The best node is chosen again from those still kept. Nodes that lost only to a withdrawn one are open again:
    `loopty node recheck` or `loopty run` judges them. `loopty node undo` undoes this.
    """
    campaign = here()
    print_verdict_change(campaign, campaign.invalidate(node, why), as_json)


@click.command("restore")
@click.argument("node", type=NodeArgument())
@why_option
@json_option
@unsafe_option
def restore_verb(node: NodeId, why: str, as_json: bool, unsafe: bool) -> None:
    """Take back that a node was discarded or invalidated by hand, with the descendants invalidated with it.

    Nothing is kept by this verb: a node that was kept waits for a verdict again, and has to win once more against
    the present best; `loopty node recheck` or `loopty run` measures it. Other nodes get their old verdicts back.
    What a gate or a measurement took back stays.
    """
    campaign = here()
    print_verdict_change(campaign, campaign.restore(node, why, unsafe), as_json)


@click.command("remeasure")
@click.argument("node", type=NodeArgument(), required=False)
@run_option
@json_option
@unsafe_option
def remeasure_verb(node: NodeId | None, run: int | None, as_json: bool, unsafe: bool) -> None:
    """Judge NODE, or every node that lost only against a withdrawn one, against the present best.

    An undecided (inconclusive) NODE gets a new comparison with an error rate of its own. Other verdicts are final,
    so nothing can be re-run until it gets lucky. Exits with 1 when it was stopped before the last verdict.
    """
    judged = here().remeasure(node, run, unsafe)
    if as_json:
        print_json(codec.plain(judged))
    elif not judged:
        say("no node waits to be judged again")
    else:
        for each in judged:
            echo(f"{each.name} {each.verdict or 'stopped'}: {each.reason}")
    sys.exit(1 if any(each.verdict is None for each in judged) else 0)
