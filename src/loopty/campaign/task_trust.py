"""Trust: what the task of a repository asks for beyond the default, and what the user says to it."""

from __future__ import annotations

import os
from pathlib import Path

from loopty.campaign.trust_store import Permission, TrustStore
from loopty.domain.task import Task
from loopty.kit.dataclass import dataclass
from loopty.taskfile.model_tables import user_config_models
from loopty.taskfile.read import load
from loopty.taskfile.task_requests import TaskRequest, git_requests, task_requests
from loopty.workspaces.repository import Repository


@dataclass(frozen=True, slots=True)
class RequestsHere:
    """What the task of one repository asks for."""

    top: Path
    requests: tuple[TaskRequest, ...]

    @property
    def are_trusted(self) -> bool:
        return TrustStore(os.environ).is_trusted(self.top, self.requests)

    def allow(self, only_task_file: bool = False) -> None:
        """Remember that the user allows this: all of it, or what the task file itself asks for."""
        if allowed := [request for request in self.requests if not (only_task_file and request.is_of_git)]:
            TrustStore(os.environ).add(self.top, allowed)


def requests_here(start: Path) -> RequestsHere:
    """The requests of the task of the repository around this directory. Raises Misuse for a faulty task file."""
    repository = Repository.open(start)
    return RequestsHere(repository.top, all_requests(repository, load(repository.top)))


def all_requests(repository: Repository, task: Task) -> tuple[TaskRequest, ...]:
    """What a task and the repository's own git configuration ask for."""
    of_task = task_requests(task, repository.top, user_config_models(os.environ))
    return (*of_task, *git_requests(repository.program_settings()))


def revoke_trust(start: Path) -> int:
    """Forget what was allowed to the task of the repository around this directory; how many permissions."""
    return TrustStore(os.environ).remove(Repository.open(start).top)


def permissions() -> list[Permission]:
    """Everything that the user has allowed, in all repositories."""
    return TrustStore(os.environ).permissions()
