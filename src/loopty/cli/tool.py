"""`loopty tool`: one call of a tool, as agents make them; or the mailbox, for agents that only write files."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from loopty.cli.tool_call import reply_to, start_call
from loopty.tools.tool_table import TOOLS, asks_for_help, tool_help
from loopty_sdk.agent_tool import call_of_words


@click.command("tool", context_settings={"help_option_names": [], "ignore_unknown_options": True})
@click.argument("name", required=False, metavar="TOOL")
@click.argument("words", nargs=-1, metavar="[KEY=VALUE… | JSON]")
@click.option("--mailbox", is_flag=True, help="Answer agents that write calls below .loopty/mail, until Ctrl-C.")
def command(name: str | None, words: tuple[str, ...], mailbox: bool) -> None:
    """Call a tool of agents from a shell: context, open, try, check, submit, wait, show, note, manage.

    Prints its reply as JSON. Arguments are KEY=VALUE, one JSON object, or `-` for one from standard input;
    `loopty tool NAME --help` lists them. Your client's name is $LOOPTY_CLIENT. Exits with 1 where the reply is an
    error.
    """
    if mailbox:
        _serve_mailbox()
        return
    if name in ("-h", "--help"):
        click.echo(click.get_current_context().get_help())
        return
    if name is None:
        click.echo("\n".join(f"{tool:<8} {entry['description']}" for tool, entry in TOOLS.items()))
        return
    if asks_for_help(name, dict.fromkeys(words)):
        click.echo(tool_help(name))
        return
    reply = reply_to(Path.cwd(), call_of_words(name, list(words), os.environ.get("LOOPTY_CLIENT", "")))
    sys.stdout.buffer.write(reply + b"\n")
    sys.exit(1 if "error" in json.loads(reply) else 0)


def _serve_mailbox() -> None:
    from loopty.cli.output import say
    from loopty.tools.mailbox import Mailbox
    from loopty.workspaces.git_folders import GitFolders
    from loopty.workspaces.state_folder import StateFolder

    state = StateFolder.of(GitFolders.find(Path.cwd()))
    state.prepare()  # `.loopty/` must hide itself from git
    mailbox = Mailbox(state.work_folder)
    mailbox.open()
    say(f"answering calls in {mailbox.top}: agents run `python3 .loopty/tool context` there; Ctrl-C ends this")
    mailbox.serve(lambda call: start_call(mailbox.top, call))
