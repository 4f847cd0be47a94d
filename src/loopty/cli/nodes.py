"""`loopty tree`, `show`, `diff`: the tree of experiments, everything about a node, and what it changed."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import click

from loopty.cli.output import (
    NodeArgument,
    columns,
    echo,
    here,
    json_option,
    print_json,
    print_json_text,
    run_option,
    say,
    say_failed_baseline,
    say_run_without_result,
    say_unreadable,
    terminal,
)
from loopty.domain.ids import NodeId
from loopty.domain.objective import score_metric
from loopty.kit import codec
from loopty.kit.process import pause_collection
from loopty.kit.records import as_dict
from loopty.show.figures import value_text
from loopty.show.plot import curve_chart
from loopty.show.terminal import diff_text, printable_line

if TYPE_CHECKING:
    from loopty.campaign.campaign import Campaign
    from loopty.models.archive import CallRecord
    from loopty.show.calls import ModelCall


_LINES_AT_ONCE = 1000


@click.command("tree")
@click.argument("node", type=NodeArgument(), required=False)
@click.option("--all", "everything", is_flag=True, help="Show every node, those of the control too.")
@click.option("--controls", is_flag=True, help="Show the nodes of the control, too.")
@run_option
@json_option
def tree_verb(node: NodeId | None, everything: bool, controls: bool, run: int | None, as_json: bool) -> None:
    """Show the tree of experiments below NODE, or of the newest run.

    Each line has the node's score, its effect over its parent, and what it changed. The path to the best node runs
    down the left edge; what was tried at each step hangs beside it.

    In a large tree, only that path, the kept nodes and the newest nodes are shown, unless --all is given. --json
    prints every node, one per line.
    """
    campaign = here()
    top = campaign.node(node or str(campaign.newest_run(run))).id
    say_run_without_result(campaign, top.run, top.run if node else run)
    say_unreadable(campaign)
    if as_json:
        for each, body in campaign.history.bodies():
            if each.is_within(top):
                print_json_text(body)
        return
    from loopty.show.tree_rows import LIMIT
    from loopty.show.tree_text import tree_lines

    metrics = campaign.history.metrics(campaign.node(str(top.run)))
    with pause_collection():
        rows = campaign.tree(top, None if everything else LIMIT, controls or everything)
        lines = tree_lines(rows, columns(), terminal(), score_metric(metrics).name if metrics else "score")
        while part := list(itertools.islice(lines, _LINES_AT_ONCE)):
            echo("\n".join(part))
    say_failed_baseline(campaign, top.run)


@click.command("show")
@click.argument("node", type=NodeArgument())
@click.option("--prompt", is_flag=True, help="Show the prompt and reply of each model call that made the node.")
@click.option("--refused", is_flag=True, help="Show the model calls to change the node that gave no trial.")
@json_option
def show_verb(node: NodeId, prompt: bool, refused: bool, as_json: bool) -> None:
    """Show everything about a node: change, parameters, metrics, learning curve, verdict, gates, and its files.

    --refused and --prompt together show the prompts and replies of the calls that were refused or failed.
    """
    campaign = here()
    say_unreadable(campaign)
    if prompt or refused:
        _show_calls(campaign, node, prompt, refused, as_json)
        return
    detail, folder, found = campaign.detail(node), campaign.node_folder(node), campaign.explanation(node)
    draft = campaign.draft_folder(node)
    if as_json:
        more = {"branch": node.branch, "folder": str(folder), "gates": codec.plain(detail.gates)}
        more |= {"workspace": str(draft)} if draft else {}
        more |= {"explanation": found.plain()} if found else {}
        print_json({**json.loads(campaign.history.body(node)), **more})
        return
    from loopty.show.node import node_text

    echo(node_text(detail, str(draft or folder), columns(), terminal(), found))
    if curve := campaign.learning_curve(node):
        echo(f"\n{curve_chart(curve, columns(), terminal=terminal())}")


def _show_calls(campaign: Campaign, node: NodeId, prompt: bool, refused: bool, as_json: bool) -> None:
    from loopty.models.archive import Archive
    from loopty.show.calls import MAX_SHOWN, calls_text, fruitless_calls_text

    name = campaign.history.name
    calls, operator = campaign.calls(node, fruitless=refused), campaign.node(node).operator
    shown = calls[-MAX_SHOWN:] if refused and not as_json else calls
    archive = Archive(campaign.record.state.calls)
    records = archive.records_of(call.reserved.call for call in shown) if prompt else {}
    if as_json:
        rows = [_call_row(call) | (_text_row(records.get(call.reserved.call)) if prompt else {}) for call in calls]
        print_json_text(
            json.dumps(
                {"node": node, "handle": campaign.history.handle(node), "operator": operator, "calls": rows}
            )
        )
    elif not calls and refused:
        say(f"no call to change {name(node)} was refused or failed")
    elif not calls:
        say(f"no model call led to {name(node)}: `{printable_line(operator)}` made it")
    elif not prompt:
        echo(fruitless_calls_text(node, calls, columns(), terminal(), name))
    else:
        with_texts = [(call, records.get(call.reserved.call)) for call in shown]
        echo(calls_text(with_texts, columns(), terminal(), name))
        if len(shown) < len(calls):
            say(f"these are the newest {len(shown)} of {len(calls):,} calls: --json has them all")


def _call_row(call: ModelCall) -> dict[str, Any]:
    reserved, settled = call.reserved, call.settled
    return {
        **{name: getattr(reserved, name) for name in ("call", "role", "model", "operator", "node", "pool")},
        "at": call.at,
        "tokens": call.tokens,
        "money_usd": call.money_usd,
        "usage": as_dict(settled.usage) if settled and settled.usage else None,
        "settled": settled is not None,
        "failure": settled.failure if settled else "",
        "lost": settled.lost if settled else False,
        "gave": call.new_nodes,
        "refused": [
            {"objection": event.objection, "reason": event.reason, "item": event.index_in_reply}
            for event in call.refused_proposals
        ],
        "fruitless_reason": call.fruitless_reason,
    }


def _text_row(record: CallRecord | None) -> dict[str, Any]:
    return {
        "prompt": as_dict(record.prompt) if record else None,
        "reply": as_dict(record.reply) if record and record.reply else None,
    }


@click.command("diff")
@click.argument("node", type=NodeArgument())
@click.option("--baseline", is_flag=True, help="Compare with the run's baseline, not with the parent.")
@json_option
def diff_verb(node: NodeId, baseline: bool, as_json: bool) -> None:
    """Show what a node changed, as a patch."""
    campaign = here()
    found = campaign.diff(node, baseline)
    if as_json:
        params = {name: {"before": one.before, "after": one.after} for name, one in found.params.items()}
        names = {"node": node, "handle": campaign.history.handle(node), "against": found.against}
        print_json({**names, "patch": found.patch, "params": params})
        return
    if draft := campaign.draft_folder(node):
        name = campaign.history.name(node)
        say(f"{name} is a draft: its change is not recorded yet, and its files are in {draft}")

    for name, change in found.params.items():
        echo(printable_line(f"# {name}: {value_text(change.before)} → {value_text(change.after)}"))
    echo(diff_text(found.patch, terminal()), nl=False)
