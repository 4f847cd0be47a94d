"""Trust: what the task of a repository asks for beyond the default, and what the user says to it."""

from __future__ import annotations

import os
from pathlib import Path

from loopty.campaign.trust_store import Permission, TrustStore
from loopty.domain.task import Task
from loopty.kit.records import Record
from loopty.taskfile.model_tables import user_config_models
from loopty.taskfile.read import load
from loopty.taskfile.task_requests import TaskRequest, git_requests, task_requests
from loopty.workspaces.repository import Repository


class TaskHere(Record):
    """The task of one repository, and what it asks for: read once for all that a verb asks about it."""

    repository: Repository
    task: Task
    requests: tuple[TaskRequest, ...]

    @classmethod
    def read(cls, repository: Repository) -> TaskHere:
        """The task in the repository's working tree. Raises Misuse for a faulty task file."""
        task = load(repository.top)
        return cls(repository, task, all_requests(repository, task))

    def are_trusted(self) -> bool:
        """Whether the user has allowed the requests."""
        return TrustStore(os.environ).is_trusted(self.repository.top, self.requests)

    def allow(self, only_task_file: bool = False) -> None:
        """Remember that the user allows this: all of it, or what the task file itself asks for."""
        if allowed := [request for request in self.requests if not (only_task_file and request.is_of_git)]:
            TrustStore(os.environ).add(self.repository.top, allowed)


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
