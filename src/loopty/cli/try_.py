"""`loopty try`: any command on a node's files, in the sandbox of its trials."""

from __future__ import annotations

import sys

import click

from loopty.cli.output import NodeArgument, here_with_trust, say, trust_option, unsafe_option
from loopty.domain.ids import NodeId

_STOPPED = 124
"""As `timeout` does."""


@click.command("try", context_settings={"ignore_unknown_options": True})
@click.argument("node", type=NodeArgument())
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="Stop it then.")
@trust_option
@unsafe_option
def command(node: NodeId, words: tuple[str, ...], timeout: float | None, trust: bool, unsafe: bool) -> None:
    """Run any command on the files of a node or draft, where its trial would run them, and record nothing.

    The output passes through. Exits as the command does, or with 124 when it reached a limit of the trials.
    Default of --timeout: the benchmark's own.
    """
    end = here_with_trust(trust).try_command(node, words, sys.stdout.write, sys.stderr.write, timeout, unsafe)
    if end.stopped:
        say(f"stopped: {end.stopped}")
    sys.exit(_STOPPED if end.stopped else end.code)
