"""`loopty tool`: one call of a tool, as agents make them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from loopty.resident.tool_table import LARGEST_CALL, TOOLS
from loopty.resident.tool_words import call_of_words


@click.command("tool")
@click.argument("name", required=False, metavar="TOOL")
@click.argument("words", nargs=-1, metavar="[KEY=VALUE… | JSON]")
@click.option("--call", "folder", type=click.Path(path_type=Path), hidden=True)
def command(name: str | None, words: tuple[str, ...], folder: Path | None) -> None:
    """Call a tool of agents from a shell: context, open, try, check, submit, wait, show, note, manage.

    Prints its reply as JSON. Arguments are KEY=VALUE, one JSON object, or `-` for one from standard input. Your
    client's name is $LOOPTY_CLIENT. Exits with 1 where the reply is an error.
    """
    from loopty.campaign.agent_tools import answer_call

    if folder:
        sys.stdout.buffer.write(answer_call(folder, sys.stdin.buffer.read(LARGEST_CALL + 1)))
        return
    if name is None:
        click.echo("\n".join(f"{tool:<8} {entry['description']}" for tool, entry in TOOLS.items()))
        return
    call = call_of_words(name, list(words), os.environ.get("LOOPTY_CLIENT", ""))
    reply = answer_call(Path.cwd(), call)
    sys.stdout.buffer.write(reply + b"\n")
    sys.exit(1 if "error" in json.loads(reply) else 0)
