"""Trust: what a repository and its task ask for beyond the default, and what the user says to it.

As with direnv, a yes belongs to one repository and to what its task asked for then: a further request asks again,
other edits of the task file do not.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from loopty.domain.access import TASK_FILE
from loopty.domain.errors import Misuse
from loopty.domain.task import Task
from loopty.git.repository import Repository
from loopty.kit.contents import write_atomically
from loopty.kit.records import Record
from loopty.taskfile.model_tables import user_config_models
from loopty.taskfile.read import load
from loopty.taskfile.task_requests import TaskRequest, git_requests, task_requests
from loopty.workspaces.state_folder import StateFolder

_LARGEST_BYTES = 1 << 20


class Permission(Record):
    """What the user allowed the task of one repository."""

    top: str
    requests: tuple[TaskRequest, ...]
    at: float
    """When, in seconds since 1970."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps([self.top, _rows(self.requests)]).encode()).hexdigest()

    def covers(self, top: str, requests: Collection[TaskRequest]) -> bool:
        return self.top == top and {*requests} <= {*self.requests}


def user_state_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for what belongs to the user and not to a repository."""
    state_home = Path(environ.get("XDG_STATE_HOME", ""))
    home = Path(environ.get("HOME") or Path.home())
    # The XDG specification says to ignore a relative path.
    return (state_home if state_home.is_absolute() else home / ".local" / "state") / "loopty"


class TrustStore:
    """The permissions of a user."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.folder = user_state_folder(environ) / "trusted"

    def is_trusted(self, top: Path, requests: Collection[TaskRequest]) -> bool:
        """Say whether the user has allowed all of this, together, to the task of this repository."""
        place = os.path.realpath(top)
        return not requests or any(permission.covers(place, requests) for permission in self.permissions())

    def add(self, top: Path, requests: Collection[TaskRequest]) -> None:
        """Remember a yes. Raises Misuse when it cannot be saved."""
        permission = Permission(os.path.realpath(top), tuple(sorted(requests)), time.time())
        text = json.dumps({"top": permission.top, "requests": _rows(permission.requests), "at": permission.at})
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._is_forgeable(self.folder):
                raise Misuse(
                    f"others can write to {self.folder}: make it yours alone, because it holds your trust"
                )
            write_atomically(self.folder, permission.digest, f"{text}\n".encode(), durable=True, mode=0o600)
        except OSError as error:
            raise Misuse(
                f"cannot write to {self.folder} ({error.strerror}): check space and permissions"
            ) from None

    def remove(self, top: Path) -> int:
        """Forget every yes to the task of this repository, and count them."""
        place = os.path.realpath(top)
        found = [permission for permission in self.permissions() if permission.top == place]
        for permission in found:
            (self.folder / permission.digest).unlink(missing_ok=True)
        return len(found)

    def permissions(self) -> list[Permission]:
        """List every yes, oldest first. A file that someone else could have written is no yes."""
        if not self.folder.is_dir() or self._is_forgeable(self.folder):
            return []
        found = (self._read(path) for path in self.folder.iterdir())
        return sorted(filter(None, found), key=lambda permission: permission.at)

    def _read(self, path: Path) -> Permission | None:
        try:
            if self._is_forgeable(path) or path.stat().st_size > _LARGEST_BYTES:
                return None
            data = json.loads(path.read_bytes())
            requests = tuple(TaskRequest(str(key), str(words)) for key, words in data["requests"])
            permission = Permission(str(data["top"]), requests, float(data["at"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return permission if permission.digest == path.name else None

    @staticmethod
    def _is_forgeable(path: Path) -> bool:
        """Say whether someone else could have written this: it is a link, another's, or writable for others."""
        found = path.lstat()
        is_plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
        return not is_plain or found.st_uid != os.geteuid() or bool(found.st_mode & 0o022)


def _rows(requests: Collection[TaskRequest]) -> list[list[str]]:
    return [[request.key, request.words] for request in requests]


def _places(requests: Collection[TaskRequest]) -> str:
    """Say where the requests are written."""
    of_git = [request for request in requests if request.is_of_git]
    places = [*([TASK_FILE] if len(of_git) < len(requests) else []), *([".git/config"] if of_git else [])]
    return " and ".join(places)


def requests_text(requests: Collection[TaskRequest]) -> str:
    """Say what a task asks for, one line each."""
    return "\n".join(["this task asks for more than the default:", *(f"  {request}" for request in requests)])


def refusal_text(requests: Collection[TaskRequest]) -> str:
    """Say why a task does not run, with the remedy."""
    remedy = f"if it may have that: `loopty config trust`, or --trust in a script; else edit {_places(requests)}"
    return f"{requests_text(requests)}\n{remedy}"


class TaskHere(Record):
    """The task of one repository, and what it asks for: read once for all that a verb asks about it."""

    repository: Repository
    task: Task
    requests: tuple[TaskRequest, ...]

    @classmethod
    def read(cls, repository: Repository) -> TaskHere:
        """Read the task in the repository's working tree. Raises Misuse for a faulty task file."""
        task = load(repository.top)
        return cls(repository, task, all_requests(repository, task))

    def are_trusted(self) -> bool:
        """Say whether the user has allowed the requests."""
        return TrustStore(os.environ).is_trusted(self.repository.top, self.requests)

    def allow(self, only_task_file: bool = False) -> None:
        """Remember that the user allows this: all of it, or what the task file itself asks for."""
        if allowed := [request for request in self.requests if not (only_task_file and request.is_of_git)]:
            TrustStore(os.environ).add(self.repository.top, allowed)


def all_requests(repository: Repository, task: Task) -> tuple[TaskRequest, ...]:
    """List what a task and the repository's own git configuration ask for."""
    of_task = task_requests(task, repository.top, user_config_models(os.environ))
    return (*of_task, *git_requests(repository.program_settings()))


def revoke_trust(start: Path) -> int:
    """Forget what was allowed to the task of the repository around this directory; count the permissions."""
    return TrustStore(os.environ).remove(Repository.open(start).top)


def permissions() -> list[Permission]:
    """List everything that the user has allowed, in all repositories."""
    return TrustStore(os.environ).permissions()


def open_own_repository(top: Path) -> Repository:
    """Open the repository at this directory, with the programs and servers that the user has allowed to it."""
    repository = Repository.open(top)
    if (state := StateFolder.of(repository.folders)).store_url:
        from loopty.session.places import open_shared_files

        shared = open_shared_files(state, repository.git)
        assert shared is not None
        repository.restore_with(shared.restore)
    settings = repository.program_settings()
    if settings and not TrustStore(os.environ).is_trusted(repository.top, git_requests(settings)):
        return repository
    repository.allow_programs()
    return repository
