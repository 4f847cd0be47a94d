"""stdout is data, stderr is talk."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from loopty.core.history import History
from loopty.core.ids import NodeId

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class NodeArgument(click.ParamType[NodeId]):
    """A node id on the command line."""

    name = "node"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> NodeId:  # noqa: ARG002
        return NodeId.parse(str(value))


def say(text: str) -> None:
    """Talk: for people, on stderr."""
    click.echo(text, err=True)


def print_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False))


def here() -> Path:
    return Path.cwd()


def history() -> History:
    from loopty.assemble import read_history

    return read_history(here())


def columns() -> int:
    return shutil.get_terminal_size((80, 24)).columns


def colour(stream: Any = None) -> bool:
    """Whether to colour what goes to this stream (stdout)."""
    return (stream or sys.stdout).isatty() and "NO_COLOR" not in os.environ


def unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")


def newest_run(history: History, run: int | None) -> int:
    """The run that a reading verb is about."""
    from loopty.core.errors import Misuse

    if run is not None and run not in history.runs:
        raise Misuse(f"there is no run {run}: there are {', '.join(map(str, history.runs)) or 'none'}")
    if run is None and not history.runs:
        raise Misuse("nothing has run here yet: start with `loopty optimize`")
    return run if run is not None else max(history.runs)
