"""The repository for verbs that need no task: git runs what its configuration chooses only after a yes."""

from __future__ import annotations

import os
from pathlib import Path

from loopty.workspaces.repository import Repository
from loopty.workspaces.state_folder import StateFolder


def open_own_repository(top: Path) -> Repository:
    """The repository at this directory, with the programs and servers that the user has allowed to it."""
    repository = Repository.open(top)
    if (state := StateFolder.of(repository.folders)).store_url:
        from loopty.campaign.shared_state import open_shared_files

        shared = open_shared_files(state, repository.git)
        assert shared is not None
        repository.restore_with(shared.restore)
    if settings := repository.program_settings():
        from loopty.campaign.trust_store import TrustStore
        from loopty.taskfile.task_requests import git_requests

        if not TrustStore(os.environ).is_trusted(repository.top, git_requests(settings)):
            return repository
    repository.allow_programs()
    return repository
