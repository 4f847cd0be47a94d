"""`loopty hook`: what a host's hooks run."""

from __future__ import annotations

import json
import sys

import click

from loopty.hosts.hook_call import LARGEST_BYTES, MOMENTS, HookCall


@click.command("hook", hidden=True)
@click.argument("event", type=click.Choice(list(MOMENTS)))
def command(event: str) -> None:
    """Answer a hook of a coding agent's host; `loopty install` registers this.

    Reads the host's JSON from stdin and prints the reply. It never fails: whatever is wrong, the host goes on.
    """
    from loopty.campaign.host_hooks import answer_hook
    from loopty.domain.errors import LooptyError

    call = HookCall.parse(event, sys.stdin.read(LARGEST_BYTES))
    try:
        reply = answer_hook(call) if call else {}
    except (LooptyError, OSError):
        reply = {}
    click.echo(json.dumps(reply))
