"""The shared store of a repository, as the user chose it: by LOOPTY_STORE, or with `loopty ledger --store`."""

from __future__ import annotations

from loopty.stores.open_store import open_store
from loopty.workspaces.git_command import GitCommand
from loopty.workspaces.shared_files import SharedFiles
from loopty.workspaces.state_folder import StateFolder


def open_shared_files(state: StateFolder, git: GitCommand) -> SharedFiles | None:
    """The files that this clone shares with others; None where the user has chosen no store."""
    return SharedFiles(open_store(state.store_url), state, git) if state.store_url else None
