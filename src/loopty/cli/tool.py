"""`loopty tool`: one call of a tool, as agents make them."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

import click

from loopty.resident.tool_table import LARGEST_CALL, TOOLS
from loopty_sdk.agent_tool import call_of_words


@click.command("tool")
@click.argument("name", required=False, metavar="TOOL")
@click.argument("words", nargs=-1, metavar="[KEY=VALUE… | JSON]")
@click.option("--call", "folder", type=click.Path(path_type=Path), hidden=True)
def command(name: str | None, words: tuple[str, ...], folder: Path | None) -> None:
    """Call a tool of agents from a shell: context, open, try, check, submit, wait, show, note, manage.

    Prints its reply as JSON. Arguments are KEY=VALUE, one JSON object, or `-` for one from standard input. Your
    client's name is $LOOPTY_CLIENT. Exits with 1 where the reply is an error.
    """
    if folder:
        sys.stdout.buffer.write(_reply(folder, sys.stdin.buffer.read(LARGEST_CALL + 1)))
        return
    if name is None:
        click.echo("\n".join(f"{tool:<8} {entry['description']}" for tool, entry in TOOLS.items()))
        return
    reply = _reply(Path.cwd(), call_of_words(name, list(words), os.environ.get("LOOPTY_CLIENT", "")))
    sys.stdout.buffer.write(reply + b"\n")
    sys.exit(1 if "error" in json.loads(reply) else 0)


def _reply(folder: Path, call: bytes) -> bytes:
    """The reply of a process that outlives this one, because work may go on."""
    from loopty.campaign.agent_tools import answer_call
    from loopty.kit.detached import run_detached

    reading, writing = os.pipe()

    def send(reply: bytes) -> None:
        with contextlib.suppress(BrokenPipeError), os.fdopen(writing, "wb") as pipe:
            pipe.write(reply)

    run_detached(lambda: answer_call(folder, call, send), kept=(writing,))
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        reply = pipe.read()
    return reply or b'{"error": "the process that ran this was killed; what was recorded is safe: call again"}'
