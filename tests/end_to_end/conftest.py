"""A real repository and the real command line."""

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from loopty.campaign.campaign import Campaign
from loopty.domain.errors import LooptyError

from .fork_server import run_verb

GIT = {
    "GIT_AUTHOR_NAME": "user",
    "GIT_AUTHOR_EMAIL": "user@example.org",
    "GIT_COMMITTER_NAME": "user",
    "GIT_COMMITTER_EMAIL": "user@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
}
NUMBER_BENCH = 'echo "{\\"score\\": $(cat src/x.txt)}" > "$EVO_RESULT_PATH"\n'
CODE_TASK = """
[benchmark]
command = "sh bench.sh"
timeout_seconds = 20
[access]
write = ["src/**"]
[pools]
attempts = {attempts}
"""
PARAMETER_TASK = """
[benchmark]
command = {command}
timeout_seconds = 20
[parameters.x]
type = "float"
low = 0.0
high = 1.0
[pools]
attempts = {attempts}
"""
ECHO_X = (
    'x=$(sed \'s/.*"x": *\\([0-9.e-]*\\).*/\\1/\' "$LOOPTY_PARAMS"); echo "{\\"score\\": $x}" > "$EVO_RESULT_PATH"'
)


@dataclass(frozen=True)
class Place:
    """A repository to try loopty in."""

    top: Path

    @property
    def state(self) -> Path:
        """Where loopty keeps its state."""
        return self.top / ".git/loopty"

    def write(self, path: str, text: str) -> None:
        (self.top / path).parent.mkdir(parents=True, exist_ok=True)
        (self.top / path).write_text(text)
        if path == "loopty.toml":
            self.trust()

    def trust(self) -> None:
        """Allow what the task file asks for, as its author does; a stranger's is written by other means."""
        with contextlib.suppress(LooptyError):  # some task files are faulty on purpose
            Campaign(self.top).trust()

    def git(self, *args: str) -> str:
        done = subprocess.run(
            ["git", *args], cwd=self.top, env={**os.environ, **GIT}, capture_output=True, text=True, check=True
        )
        return done.stdout

    def commit(self, message: str = "as it is") -> None:
        self.git("add", "--all")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def start(self, *args: str) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-m", "loopty.cli.main", *args],
            cwd=self.top,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def loopty(self, *args: str, code: int | None = 0) -> subprocess.CompletedProcess:
        done = run_verb(args, self.top)
        out, err = done.stdout, done.stderr
        assert code is None or done.returncode == code, f"{args} gave {done.returncode}:\n{out}\n{err}"
        assert "Traceback" not in err, err
        return done

    def json(self, *args: str):
        return json.loads(self.loopty(*args, "--json").stdout)

    @property
    def state_folder(self):
        from loopty.git.folders import GitFolders
        from loopty.workspaces.state_folder import StateFolder

        return StateFolder.of(GitFolders.find(self.top))

    def history(self):
        from loopty.git.folders import GitFolders
        from loopty.session.saved_record import SavedRecord

        return SavedRecord(GitFolders.find(self.top)).history

    def commit_of(self, node: str) -> str:
        return self.history()[node].commit

    def held_commits(self, run: int = 1) -> list[str]:
        """The commits of nodes that git keeps for a run."""
        from loopty.git.repository import Repository
        from loopty.workspaces.node_refs import NodeRefs

        return NodeRefs(Repository.open(self.top)).commits(run)


@pytest.fixture
def place(tmp_path) -> Place:
    """An empty repository."""
    made = Place(tmp_path / "repo")
    made.top.mkdir()
    made.git("init", "-q", "-b", "main")
    return made


@pytest.fixture
def code_place(place) -> Place:
    """A task whose candidates are a number in a file."""
    place.write("bench.sh", NUMBER_BENCH)
    place.write("src/x.txt", "5\n")
    place.write("loopty.toml", CODE_TASK.format(attempts=8))
    place.commit()
    return place


@pytest.fixture
def parameter_place(place) -> Place:
    """A task with one parameter, whose value is the score."""
    place.write("loopty.toml", PARAMETER_TASK.format(attempts=8, command=json.dumps(ECHO_X)))
    place.commit()
    return place


@pytest.fixture
def small_disk(place):
    """A small disk for loopty's state, which a test can fill."""
    state = place.state
    state.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", state]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    yield state
    subprocess.run(["umount", state], check=True)
