"""`loopty show`: everything about a node."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from loopty.cli import declare
from loopty.cli.output import (
    NodeArgument,
    columns,
    here,
    json_option,
    print_json,
    print_json_text,
    say,
    say_unreadable,
    terminal,
)
from loopty.domain.ids import NodeId
from loopty.kit.records import as_dict

if TYPE_CHECKING:
    from loopty.campaign.campaign import Campaign
    from loopty.models.archive import CallRecord
    from loopty.views.model_calls import ModelCall


@declare.command("show")
@declare.argument("node", type=NodeArgument())
@declare.option("--prompt", is_flag=True, help="Show the prompt and reply of each model call that made the node.")
@declare.option("--refused", is_flag=True, help="Show the model calls to change the node that gave no trial.")
@json_option
def command(node: NodeId, prompt: bool, refused: bool, as_json: bool) -> None:
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
        from loopty.kit import codec

        more = {"branch": node.branch, "folder": str(folder), "gates": codec.plain(detail.gates)}
        more |= {"workspace": str(draft)} if draft else {}
        more |= {"explanation": found.plain()} if found else {}
        print_json({**json.loads(campaign.history.page(node)), **more})
        return
    from loopty.report.node_text import node_text

    declare.echo(node_text(detail, str(draft or folder), columns(), terminal(), found))
    if curve := campaign.learning_curve(node):
        from loopty.report.curve_chart import curve_chart

        declare.echo(f"\n{curve_chart(curve, columns(), terminal=terminal())}")


def _show_calls(campaign: Campaign, node: NodeId, prompt: bool, refused: bool, as_json: bool) -> None:
    from loopty.models.archive import Archive
    from loopty.report.calls_text import calls_text
    from loopty.report.columns import printable_line
    from loopty.report.fruitless_calls_text import MAX_SHOWN, fruitless_calls_text

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
        declare.echo(fruitless_calls_text(node, calls, columns(), terminal(), name))
    else:
        with_texts = [(call, records.get(call.reserved.call)) for call in shown]
        declare.echo(calls_text(with_texts, columns(), terminal(), name))
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
