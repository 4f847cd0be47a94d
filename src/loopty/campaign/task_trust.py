"""Trust: what the task of a repository asks for beyond the default, and what the user says to it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from loopty.campaign.trust_store import Permission, TrustStore
from loopty.taskfile.model_tables import user_config_models
from loopty.taskfile.read import load
from loopty.taskfile.task_requests import TaskRequest, task_requests
from loopty.workspaces.repository import Repository


@dataclass(frozen=True, slots=True)
class RequestsHere:
    """What the task of one repository asks for."""

    top: Path
    requests: tuple[TaskRequest, ...]

    @property
    def are_trusted(self) -> bool:
        return TrustStore(os.environ).is_trusted(self.top, self.requests)

    def allow(self) -> None:
        """Remember that the user allows this."""
        if self.requests:
            TrustStore(os.environ).add(self.top, self.requests)


def requests_here(start: Path) -> RequestsHere:
    """The requests of the task of the repository around this directory. Raises Misuse for a faulty task file."""
    top = Repository.open(start).top
    return RequestsHere(top, task_requests(load(top), top, user_config_models(os.environ)))


def revoke_trust(start: Path) -> int:
    """Forget what was allowed to the task of the repository around this directory; how many permissions."""
    return TrustStore(os.environ).remove(Repository.open(start).top)


def permissions() -> list[Permission]:
    """Everything that the user has allowed, in all repositories."""
    return TrustStore(os.environ).permissions()
