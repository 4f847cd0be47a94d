"""What loopty may reach from here: its state and its resident process. An agent's shell may be in a sandbox."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

from loopty.cli.findings import Finding
from loopty.domain.errors import Misuse


def reach_findings() -> Iterator[Finding]:
    """Whether the state can be written and sockets can be made; nothing outside of a repository."""
    from loopty.resident.client import here
    from loopty.resident.server import process_number
    from loopty.workspaces.git_folders import GitFolders
    from loopty.workspaces.state_folder import StateFolder

    place = here()
    try:
        state = StateFolder.of(GitFolders.find(Path.cwd()))
    except Misuse:
        return
    if place is None:
        return
    folder = state.home.shown_path if state.home.exists() else state.home.root
    outside = "in a sandbox, call loopty's tools instead (docs/tools.md)"
    can_write = os.access(folder, os.W_OK)
    yield Finding(
        "state", can_write, str(folder) if can_write else f"{folder} is read-only: {outside}", needed=False
    )
    try:
        socket.socket(socket.AF_UNIX).close()
    except OSError as error:
        by_files = "agents reach loopty by files: `loopty serve --mailbox` outside, `.loopty/tool` here"
        yield Finding("resident process", False, f"no sockets here ({error.strerror}): {by_files}", needed=False)
        return
    number = process_number(place)
    detail = f"process {number}" if number else "none; `loopty serve` starts one"
    yield Finding("resident process", True, detail, needed=False)
