"""What verbs share: options, and printing. Data goes to stdout, talk to stderr."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loopty.campaign.campaign import Campaign
from loopty.domain.ids import NodeId

if TYPE_CHECKING:
    from loopty.campaign.verdict_changes import VerdictChange
    from loopty.domain.outcome import Outcome
    from loopty.report.terminal import Terminal

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
run_option = click.option("--run", type=int, metavar="N", help="The run. Default: the newest.")
unsafe_option = click.option(
    "--unsafe-no-sandbox",
    "unsafe",
    is_flag=True,
    help="No sandbox: candidates run with your full permissions (dangerous).",
)
NO_SANDBOX = "warning: no sandbox; candidates run with your full permissions"


class NodeArgument(click.ParamType[NodeId]):
    """A node id on the command line; `best` is the best node of the newest run."""

    name = "node"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> NodeId:  # noqa: ARG002
        from loopty.campaign.lookup import is_abbreviated

        text = str(value)
        return here().find_node(text) if is_abbreviated(text) else NodeId.parse(text.removeprefix("loopty-"))


def here() -> Campaign:
    """The campaign of the repository around the current directory."""
    return Campaign(Path.cwd(), say)


def say(text: str) -> None:
    """Talk to a person, on stderr."""
    click.echo(text, err=True)


def print_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False))


why_option = click.option("--why", required=True, metavar="TEXT", help="The reason; it stays in the record.")


def print_verdict_change(change: VerdictChange, as_json: bool) -> None:
    """Print which verdicts were withdrawn, what is open again, and what is the best node now."""
    from loopty.report.columns import short_id

    if as_json:
        from loopty.kit import codec

        print_json(codec.plain(change))
        return
    click.echo(f"withdrawn: {', '.join(map(short_id, change.withdrawn)) or 'nothing'}")
    if change.reopened:
        click.echo(f"unjudged again: {', '.join(map(short_id, change.reopened))}")
        say("judge them: loopty remeasure")
    if change.best:
        click.echo(f"best: {short_id(change.best)}")


def print_integrity(outcome: Outcome | None) -> None:
    """Say it where the candidate could reach the code that scored it."""
    from loopty.domain.outcome import Integrity

    if outcome and outcome.integrity is Integrity.WEAK:
        click.echo("integrity: weak")


def print_beside(head: str, text: str) -> None:
    """Print the text beside its head, in lines as wide as the terminal."""
    from loopty.report.columns import text_beside

    click.echo(terminal().render(text_beside(head, text, columns())))


def columns() -> int:
    return shutil.get_terminal_size((80, 24)).columns


def terminal() -> Terminal:
    """What stdout can show."""
    from loopty.report.terminal import Terminal

    return Terminal.for_stream(sys.stdout, os.environ)
