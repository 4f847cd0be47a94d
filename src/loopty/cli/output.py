"""What verbs share: options, printing, and where loopty is. Data goes to stdout, talk to stderr."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loopty.campaign.campaign import Campaign
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.trial import Integrity
from loopty.kit import codec
from loopty.kit.contents import write_atomically
from loopty.kit.foreign_text import escape_hidden_json
from loopty.show.explanation_text import explanation_text
from loopty.show.terminal import Terminal, text_beside, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from loopty.domain.trial import Outcome
    from loopty.record.node_record import Node
    from loopty.session.verdicts import VerdictChange
    from loopty.show.explanation import Explanation
    from loopty.show.terminal import Terminal
    from loopty.taskfile.task_requests import TaskRequest


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
run_option = click.option("--run", type=int, metavar="N", help="The run. Default: the newest.")
unsafe_option = click.option(
    "--unsafe-no-sandbox",
    "unsafe",
    is_flag=True,
    help="No sandbox: candidates run with your full permissions (dangerous).",
)
trust_option = click.option(
    "--trust",
    is_flag=True,
    help="Allow what loopty.toml asks for beyond the default, as `loopty config trust --yes` does.",
)
NO_SANDBOX = "warning: no sandbox; candidates run with your full permissions"


class NodeArgument(click.ParamType[NodeId]):
    """A node on the command line: `@95`, its path, or `best`, the best node of the newest run."""

    name = "node"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> NodeId:  # noqa: ARG002
        return here().find_node(value)


def here(talk: Callable[[str], None] | None = None) -> Campaign:
    """Open the campaign of the repository around the current directory; `talk` prints its lines for a person."""
    return Campaign(Path.cwd(), talk or say)


def here_with_trust(trust: bool, talk: Callable[[str], None] | None = None) -> Campaign:
    """Open the campaign here, for a verb that runs trials.

    With `trust`, or after a yes, the task may have what it asks for.
    """
    campaign = here(talk)
    # Without a terminal no one is asked: the campaign itself refuses what is not allowed.
    if not campaign.is_trusted() and (trust or confirm_requests(campaign.requests())):
        campaign.trust()
    return campaign


def confirm_requests(requests: Sequence[TaskRequest]) -> bool:
    """Show what a task asks for, and ask the user; False without a terminal."""
    from loopty.session.trust import requests_text

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    say(requests_text(requests))
    return click.confirm("Allow this, and remember it for this repository?", err=True)


def echo(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Print a line and flush; without `nl` its end is in the text."""
    stream = sys.stderr if err else sys.stdout
    stream.write(f"{text}\n" if nl else text)
    stream.flush()


def say(text: str) -> None:
    """Talk to a person, on stderr."""
    echo(text, err=True)


def say_unreadable(campaign: Campaign) -> None:
    """Warn of events that cannot be read, for verbs that show what the others say."""
    if text := campaign.unreadable:
        say(f"warning: {text}")


def say_paragraph(text: str) -> None:
    """Talk to a person, in lines as wide as the terminal."""
    say("\n".join(wrap(text, columns())))


def write_for_user(path: Path, content: bytes) -> None:
    """Write a file that the user named, as a whole or not at all."""
    try:
        write_atomically(path.parent, path.name, content)
    except OSError as error:
        raise Misuse(f"cannot write {path} ({error.strerror}): name another file") from None


def print_json(data: Any) -> None:
    print_json_text(json.dumps(data, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False))


def print_json_text(text: str) -> None:
    """Print JSON. Hidden characters are escaped: a reader gets the same value, a terminal nothing to obey."""
    echo(escape_hidden_json(text))


why_option = click.option("--why", required=True, metavar="TEXT", help="The reason; it stays in the record.")


def print_verdict_change(campaign: Campaign, change: VerdictChange, as_json: bool) -> None:
    """Print which verdicts were withdrawn, what is open again, and what is the best node now."""
    if as_json:
        nodes = (*change.withdrawn, *change.reopened, *((change.best,) if change.best else ()))
        handles = {node: campaign.history.handle(NodeId(node)) for node in nodes}
        print_json({**codec.plain(change), "handles": handles})
        return
    name = campaign.history.name
    echo(f"withdrawn: {', '.join(map(name, change.withdrawn)) or 'nothing'}")
    if change.reopened:
        echo(f"unjudged again: {', '.join(map(name, change.reopened))}")
        say("judge them: loopty node recheck")
    if change.best:
        echo(f"best: {name(change.best)}")


def say_control(campaign: Campaign, run: int) -> None:
    """Say it where the control did better than the best attempt."""
    from loopty.show.closing_text import control_hint

    if hint := control_hint(campaign.status(run)):
        say(hint)


def print_explanation(found: Explanation | None) -> None:
    """Say why a trial failed: the lines of its error, the cause, the remedy, and where its output is."""
    if not found:
        return

    if text := explanation_text(found, columns(), terminal(), Path.cwd()):
        say(text)


def say_failed_baseline(campaign: Campaign, run: int) -> None:
    """Say why the run has no result to compare with, where its baseline failed."""
    if found := campaign.explanation(str(run)):
        root = campaign.node(str(run))
        reason = f"the baseline {root.name} gave no result: {root.reason}"
        say("\n".join(wrap(reason, columns())))
        print_explanation(found)


def say_run_without_result(campaign: Campaign, shown: int, named: int | None) -> None:
    """Say it where a newer run than the one that is shown has no result; not to a user who named the run."""
    newest = max(campaign.history.runs)
    if named is None and newest > shown:
        say(f"run {newest} has no result, so this is run {shown}; `loopty status --run {newest}` says why")


def print_integrity(outcome: Outcome | None) -> None:
    """Say it where the candidate could reach the code that scored it."""
    if outcome and outcome.integrity is Integrity.WEAK:
        echo("integrity: weak")


def confirm_weak(node: Node) -> None:
    """Ask on a terminal whether a change that could reach its own score is wanted all the same."""
    weakness = node.outcome.weakness if node.outcome else ""
    if not (weakness and sys.stdin.isatty() and sys.stderr.isatty()):
        return
    say_paragraph(f"{node.name} has weak integrity: {weakness}. loopty diff {node.name} shows the change.")
    if not click.confirm("Have you read it, and is it honest?", default=False, err=True):
        say("nothing was applied")
        sys.exit(1)


def print_beside(head: str, text: str) -> None:
    """Print the text beside its head, in lines as wide as the terminal."""
    echo(terminal().render(text_beside(head, text, columns())))


def columns() -> int:
    return shutil.get_terminal_size((80, 24)).columns


def terminal() -> Terminal:
    """Say what stdout can show."""
    return Terminal.for_stream(sys.stdout, os.environ)


def say_own_path() -> None:
    """Say how to call loopty where it was called by a path, and a shell would not find it by its name."""
    program = Path(sys.argv[0])
    if len(program.parts) > 1 and program.name == "loopty" and shutil.which("loopty") is None:
        say(f"loopty is not on your PATH; call it as {os.path.normpath(program.absolute())}")
