"""stdout is data, stderr is talk."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loopty.domain.ids import NodeId
from loopty.record.history import History
from loopty.record.verdicts import Incumbents

if TYPE_CHECKING:
    from loopty.report.terminal import Terminal
    from loopty.views.run_status import RunStatus

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
run_option = click.option("--run", type=int, metavar="N", help="Which run. Default: the newest.")


class NodeArgument(click.ParamType[NodeId]):
    """A node id on the command line; `best` stands for the best node of the newest run."""

    name = "node"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> NodeId:  # noqa: ARG002
        return best_node() if value == "best" else named_node(str(value))


def named_node(text: str) -> NodeId:
    """The node of this id; also of its branch or folder, or of the way a deep id is shortened on screen."""
    from loopty.domain.errors import Misuse

    name = text.removeprefix("loopty-")
    head, shortened, tail = name.partition("…")
    if not shortened and not re.fullmatch(r"\d+\.x\d+\.[0-9a-f]+", name):
        return NodeId.parse(name)
    found = [n for n in history().ids if n.name == name or (shortened and n.startswith(head) and n.endswith(tail))]
    if len(found) != 1:
        raise Misuse(f"'{text}' names {len(found) or 'no'} nodes: `loopty tree --json` has the whole ids")
    return found[0]


def best_node() -> NodeId:
    from loopty.domain.errors import Misuse
    from loopty.domain.pool import Pool

    run = history().run
    best = Incumbents.of(run, Pool.ATTEMPT).best if run else None
    if best is None:
        raise Misuse("there is no best node yet: run `loopty optimize` first")
    return best


def say(text: str) -> None:
    """Talk: for people, on stderr."""
    click.echo(text, err=True)


def print_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False))


def here() -> Path:
    return Path.cwd()


def history() -> History:
    from loopty.campaign.saved_state import read_history

    return read_history(here())


def beside(head: str, text: str) -> None:
    """Print the text beside its head, in lines as wide as the terminal."""
    from loopty.report.columns import text_beside

    click.echo(look().render(text_beside(head, text, columns())))


def columns() -> int:
    return shutil.get_terminal_size((80, 24)).columns


def look() -> Terminal:
    """What stdout can show."""
    from loopty.report.terminal import Terminal

    return Terminal.for_stream(sys.stdout, os.environ)


def current_status(history: History, run: int) -> RunStatus:
    """Where the run stands, with the budget of the task file as far as that can be read."""
    from loopty.campaign.saved_state import found_state
    from loopty.domain.errors import Misuse
    from loopty.executors.process_locks import ProcessLocks
    from loopty.taskfile.read import load
    from loopty.views.run_status import status

    state = found_state(here())
    found, now, alive = history.runs[run], time.time(), ProcessLocks(state.owners).is_alive
    try:
        task = load(state.top)
    except Misuse:
        return status(history, found, now, alive)
    return status(history, found, now, alive, task.pools, task.width)


def newest_run(history: History, run: int | None) -> int:
    """The run that a reading verb is about."""
    from loopty.domain.errors import Misuse

    if not history.runs:
        raise Misuse("nothing has run here yet: start with `loopty optimize`")
    if run is not None and run not in history.runs:
        known = ", ".join(map(str, history.runs))
        raise Misuse(
            f"there is no run {run}: there {'are runs' if len(history.runs) > 1 else 'is only run'} {known}"
        )
    return run if run is not None else max(history.runs)
