"""`loopty new`: a node made by hand."""

from __future__ import annotations

import click

from loopty.cli.output import NodeArgument, here, json_option, print_json, say
from loopty.domain.ids import NodeId
from loopty.domain.space import Params, Space, Value
from loopty.record.verdicts import Incumbents


@click.command("new")
@click.option("--parent", type=NodeArgument(), help="The node to change. Default: the best one.")
@click.option("-m", "--message", default="by hand", show_default=True, help="What the change is, in words.")
@click.option("--param", "params", multiple=True, metavar="NAME=VALUE", help="Set a parameter; repeatable.")
@json_option
def command(parent: NodeId | None, message: str, params: tuple[str, ...], as_json: bool) -> None:
    """Make a node by hand: an editable workspace.

    Prints the id and the directory that holds the files you may change. Edit them, then `loopty run ID`.
    """
    from loopty.campaign.campaign import Campaign
    from loopty.domain.pool import Pool
    from loopty.domain.proposal import Proposal
    from loopty.engine import decisions
    from loopty.engine.protocols import CommittedFiles
    from loopty.record.nodes import NodeAdded
    from loopty.workspaces import drafts

    campaign = Campaign.open(here())
    if parent is None:
        run = campaign.history.runs[campaign.enter_run(False, say)]
        parent = Incumbents.of(run, Pool.ATTEMPT).best or run.root
    elif parent == "1" and not campaign.history.runs:
        parent = campaign.history.runs[campaign.enter_run(False, say)].root
    above = campaign.history[parent]
    said = message.encode(errors="surrogateescape").decode(errors="replace")  # a shell may pass any bytes
    proposal = Proposal(decisions.BY_HAND, parent, said, _point(params, above.params, campaign.task.space))
    events = campaign.recorder.record(
        lambda history: decisions.add_node(
            history, proposal, CommittedFiles(above.commit, above.tree), Pool.ATTEMPT, draft=True
        )
    )
    added = events[0].event
    assert isinstance(added, NodeAdded)
    folder = campaign.state.draft_folder(added.node)
    files = drafts.lay_out(campaign.repository, campaign.files, above, folder)
    if as_json:
        print_json({"node": added.node, "workspace": str(folder), "files": files})
        return
    click.echo(f"{added.node} {folder}")
    say(f"{len(files)} file{'s' * (len(files) != 1)} to edit there; then: loopty run {added.node}")


def _point(pairs: tuple[str, ...], before: Params, space: Space) -> dict[str, Value]:
    """The parent's parameters with these NAME=VALUE pairs set; empty when there are none."""
    from loopty.domain.errors import Misuse

    given = dict(_parsed(pair, space) for pair in pairs)
    point = space.complete_point({**before, **given}) if given else {}
    for name in given:
        if name not in point:
            raise Misuse(f"--param {name}: it does not exist under the values of the others")
    return point


def _parsed(pair: str, space: Space) -> tuple[str, Value]:
    import json

    from loopty.domain.errors import Misuse

    name, equals, text = pair.partition("=")
    if not equals or name not in space.parameters:
        known = ", ".join(space.parameters) or "none"
        raise Misuse(f"--param {pair}: write NAME=VALUE with a parameter of the task ({known})")
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if not space.parameters[name].accepts(value):
        raise Misuse(f"--param {pair}: {value!r} lies outside the values of {name}")
    return name, value
