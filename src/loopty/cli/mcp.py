"""`loopty mcp`: the tools of agents by the Model Context Protocol."""

from __future__ import annotations

import sys

import click


@click.command("mcp")
@click.argument("folder", required=False)
def command(folder: str | None) -> None:
    """Serve the tools to a coding agent, by the Model Context Protocol on standard input and output.

    The agent's host starts it, in the repository or with FOLDER. It forwards each call to the resident process,
    which it starts where there is none.
    """
    from loopty.resident.mcp_server import main

    sys.exit(main([folder] if folder else []))
