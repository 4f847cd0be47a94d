"""Real repositories, made the way a user makes them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from loopty.domain.access import Access
from loopty.domain.benchmark import Benchmark, Limits
from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.space import Space
from loopty.domain.task import Audit, Noise, PluginChoice, Pools, SandboxSpec, Task
from loopty.domain.trial import Pool
from loopty.engine.protocols import CommittedFiles
from loopty.git.repository import Repository
from loopty.kit.records import replace
from loopty.record.node_record import Node
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.state_folder import StateFolder

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "user",
    "GIT_AUTHOR_EMAIL": "user@localhost",
    "GIT_COMMITTER_NAME": "user",
    "GIT_COMMITTER_EMAIL": "user@localhost",
}


@dataclass(frozen=True)
class User:
    """A person with a shell in a repository."""

    top: Path

    def git(self, *args: str, at: Path | None = None) -> bytes:
        return subprocess.run(
            ["git", *args], cwd=at or self.top, env=ENVIRONMENT, check=True, capture_output=True
        ).stdout

    def writes(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def commits(self, files: dict[str, str] | None = None) -> str:
        self.writes(files or {})
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "work")
        return self.git("rev-parse", "HEAD").decode().strip()

    @property
    def repository(self) -> Repository:
        return Repository.open(self.top)


@pytest.fixture
def user(tmp_path: Path) -> User:
    return start_repository(tmp_path.resolve() / "repo")


def start_repository(top: Path, *flags: str) -> User:
    top.mkdir(parents=True)
    user = User(top)
    user.git("init", "--quiet", "--initial-branch=main", *flags)
    return user


@pytest.fixture
def start() -> Callable[..., User]:
    return start_repository


def make_task(access: Access, **benchmark: object) -> Task:
    command = Benchmark("python3 evaluate.py", 30.0)
    return Task(
        "",
        replace(command, **benchmark),  # type: ignore[arg-type]
        Objective(),
        access,
        Space(),
        Limits(),
        Pools(),
        Noise(),
        Audit(),
        SandboxSpec(),
        (),
        PluginChoice("mutate"),
        PluginChoice("mutate"),
        PluginChoice("none"),
        width=1,
        seed=0,
    )


def make_node(name: str, committed: CommittedFiles) -> Node:
    return Node(
        NodeId(name),
        Pool.ATTEMPT,
        "hand",
        "a change",
        committed.commit,
        committed.tree,
        0.0,
        order=1,
        position=0,
    )


@pytest.fixture
def node() -> Callable[[str, CommittedFiles], Node]:
    return make_node


@pytest.fixture
def files_of() -> Callable[..., NodeFiles]:
    """The files of a user's nodes under these access rules."""

    def make(user: User, access: Access, **benchmark: object) -> NodeFiles:
        state = StateFolder.of(user.repository.folders)
        state.prepare()
        return NodeFiles(user.repository, state, make_task(access, **benchmark))

    return make


@pytest.fixture
def task_of() -> Callable[..., Task]:
    return make_task
