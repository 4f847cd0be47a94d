"""`loopty show`: everything about a node."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loopty.cli.output import NodeArgument, columns, here, history, json_option, look, print_json, say
from loopty.domain.ids import NodeId

if TYPE_CHECKING:
    from loopty.domain.gate_spec import Gate
    from loopty.models.archive import CallRecord
    from loopty.record.node_record import Node
    from loopty.record.run_record import Run
    from loopty.views.model_calls import ModelCall
    from loopty.workspaces.state_folder import StateFolder


@click.command("show")
@click.argument("node", type=NodeArgument())
@click.option("--prompt", is_flag=True, help="The exact prompt and reply of each call of a model that it took.")
@click.option("--refused", is_flag=True, help="The calls that were to change it, and were refused or failed.")
@json_option
def command(node: NodeId, prompt: bool, refused: bool, as_json: bool) -> None:
    """Show everything about a node: change, parameters, metrics, verdict, gates, and where its files are.

    With --refused and --prompt: the exact prompts and replies of what came to nothing.
    """
    from loopty.campaign.saved_state import found_state
    from loopty.kit import codec
    from loopty.views.node_detail import detail

    found = history()
    state = found_state(here())
    if prompt or refused:
        _show_calls(state, found[node], prompt, refused, as_json)
        return
    known = detail(found, node, _task_gates(state.top, found.runs[found[node].id.run]))
    folder = state.node_folder(node)
    if as_json:
        more = {"branch": node.branch, "folder": str(folder), "gates": codec.plain(known.gates)}
        print_json({**json.loads(found.page(node)), **more})
        return
    from loopty.report.node_text import node_text

    click.echo(node_text(known, str(folder), columns(), look()))


def _show_calls(state: StateFolder, node: Node, prompt: bool, refused: bool, as_json: bool) -> None:
    from loopty.ledgers.sqlite import SqliteLedger
    from loopty.models.archive import Archive
    from loopty.report.calls_text import calls_text
    from loopty.report.columns import printable_line, short_id
    from loopty.report.refused_text import MOST_SHOWN, fruitless_calls_text
    from loopty.views.model_calls import calls_of_node, fruitless_calls_of

    archive, events = Archive(state.calls), SqliteLedger(state.ledger).read()
    calls = fruitless_calls_of(events, node) if refused else calls_of_node(events, node)
    shown = calls[-MOST_SHOWN:] if refused and not as_json else calls
    kept = archive.records_of(call.reserved.call for call in shown) if prompt else {}
    if as_json:
        told = [_told(call) | (_words(kept.get(call.reserved.call)) if prompt else {}) for call in calls]
        # In ASCII: what models and logs wrote may hold half letters, and what steers a terminal.
        click.echo(json.dumps({"node": node.id, "operator": node.operator, "calls": told}))
    elif not calls:
        none = f"no call to change {short_id(node.id)} was refused or failed"
        say(
            none
            if refused
            else f"{short_id(node.id)} took no call of a model: `{printable_line(node.operator)}` made it"
        )
    elif not prompt:
        click.echo(fruitless_calls_text(node.id, calls, columns(), look()))
    else:
        click.echo(calls_text([(call, kept.get(call.reserved.call)) for call in shown], columns(), look()))
        if len(shown) < len(calls):
            say(f"these are the newest {len(shown)} of {len(calls):,} calls: --json has them all")


def _told(call: ModelCall) -> dict[str, Any]:
    reserved, settled = call.reserved, call.settled
    refused = [
        {"objection": event.objection, "reason": event.reason, "item": event.index_in_reply}
        for event in call.refused_proposals
    ]
    return {
        **{name: getattr(reserved, name) for name in ("call", "role", "model", "operator", "node", "pool")},
        "at": call.at,
        "tokens": call.tokens,
        "money_usd": call.money_usd,
        "usage": dataclasses.asdict(settled.usage) if settled and settled.usage else None,
        "settled": settled is not None,
        "failure": settled.failure if settled else "",
        "lost": settled.lost if settled else False,
        "gave": call.new_nodes,
        "refused": refused,
        "in_vain": call.fruitless_reason,
    }


def _words(kept: CallRecord | None) -> dict[str, Any]:
    return {
        "prompt": dataclasses.asdict(kept.prompt) if kept else None,
        "reply": dataclasses.asdict(kept.reply) if kept and kept.reply else None,
    }


def _task_gates(top: Path, run: Run) -> tuple[Gate, ...]:
    """The gates of the task file, unless it cannot be read or has other ones than the run began with."""
    from loopty.domain.errors import Misuse
    from loopty.domain.task import digest
    from loopty.taskfile.read import load

    try:
        gates = load(top).gates
    except Misuse:
        return ()
    return gates if digest(gates) == run.criteria_parts.get("gates") else ()
