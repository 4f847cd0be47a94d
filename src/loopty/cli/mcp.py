"""`loopty mcp`: the tools of agents by the Model Context Protocol."""

from __future__ import annotations

import os
from pathlib import Path

from loopty.cli import declare


@declare.command("mcp")
@declare.argument("folder", required=False)
def command(folder: str | None) -> None:
    """Serve the tools to a coding agent, by the Model Context Protocol on standard input and output.

    The agent's host starts it, in the repository or with FOLDER.
    """
    from loopty.cli.tool_call import start_call
    from loopty.tools.mcp_server import McpServer

    top = Path(folder or "").absolute()
    McpServer(os.environ.get("LOOPTY_CLIENT", ""), lambda call: start_call(top, call)).serve()
