"""`loopty show`: everything about a node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loopty.cli.output import NodeArgument, columns, here, history, json_option, look, print_json
from loopty.core.ids import NodeId

if TYPE_CHECKING:
    from loopty.core.gate import Gate
    from loopty.core.records import Run


@click.command("show")
@click.argument("node", type=NodeArgument())
@json_option
def command(node: NodeId, as_json: bool) -> None:
    """Show everything about a node: change, parameters, metrics, verdict, gates, and where its files are."""
    from loopty.kit import codec
    from loopty.reading import found_state
    from loopty.views.detail import detail

    found = history()
    state = found_state(here())
    known = detail(found, node, _task_gates(state.top, found.runs[found[node].id.run]))
    folder = state.node(node)
    if as_json:
        more = {"branch": node.branch, "folder": str(folder), "gates": codec.plain(known.gates)}
        print_json({**json.loads(found.page(node)), **more})
        return
    from loopty.report.node import node_text

    click.echo(node_text(known, str(folder), columns(), look()))


def _task_gates(top: Path, run: Run) -> tuple[Gate, ...]:
    """The gates of the task file, unless it cannot be read or has other ones than the run began with."""
    from loopty.core.errors import Misuse
    from loopty.core.task import digest
    from loopty.taskfile.read import load

    try:
        gates = load(top).gates
    except Misuse:
        return ()
    return gates if digest(gates) == run.stated.get("gates") else ()
