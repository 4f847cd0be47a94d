"""What loopty may reach from here: its state. An agent's shell may be in a sandbox."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from loopty.cli.findings import Finding
from loopty.domain.errors import Misuse

_OUTSIDE = "in a sandbox, call loopty's tools instead, by MCP or by files (docs/tools.md)"


def reach_findings() -> Iterator[Finding]:
    """Say whether the state can be written; nothing outside of a repository."""
    from loopty.workspaces.git_folders import GitFolders
    from loopty.workspaces.state_folder import StateFolder

    try:
        state = StateFolder.of(GitFolders.find(Path.cwd()))
    except Misuse:
        return
    folder = state.home.shown_path if state.home.exists() else state.home.root
    can_write = os.access(folder, os.W_OK)
    detail = str(folder) if can_write else f"{folder} is read-only: {_OUTSIDE}"
    yield Finding("state", can_write, detail, needed=False)
