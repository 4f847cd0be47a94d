"""A small repository of a user, who has loopty from a wheel, without an extra, and no git identity."""

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from loopty.cli.verbs import GROUPS

from ..clean_environment import Installed

TASK = """\
[benchmark]
command = "python3 bench.py"
timeout_seconds = 60
result = "stdout"
[objective]
direction = "max"
[access]
write = ["program.py"]
[noise]
repeat = "never"
confirm = 0
[pools]
attempts = 2
"""


def verb_of(words: tuple[str, ...]) -> str:
    """The verb of a command line, with its group if it is in one."""
    return " ".join(words[:2]) if words[0] in GROUPS else words[0]


@dataclass(frozen=True)
class UserPlace:
    """A repository in which this user calls loopty."""

    installed: Installed
    top: Path
    called: set[str] = field(default_factory=set)
    """The verbs so far."""

    def loopty(self, *words: str, code: int = 0, **variables: str) -> str:
        """Run a verb, which may end with this status and without a traceback; return all that it printed."""
        self.called.add(verb_of(words))
        done = self.installed.run(*words, at=self.top, **variables)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == code, f"loopty {words} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def edited_draft(self, rate: int) -> str:
        """Make a draft with this rate, below the baseline."""
        made = json.loads(self.loopty("draft", "new", "--parent", "1", "-m", f"rate {rate}", "--json"))
        file = self.top / ".loopty/drafts" / made["node"] / "program.py"
        file.write_text(file.read_text().replace("RATE = 3", f"RATE = {rate}"))
        return str(made["node"])

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start a verb that is talked to by its input and output."""
        self.called.add(verb_of(words))
        pipe, environment = subprocess.PIPE, self.installed.environment()
        command = [self.installed.program, *words]
        return subprocess.Popen(command, cwd=self.top, env=environment, stdin=pipe, stdout=pipe, text=True)

    def refusal(self, *words: str, **variables: str) -> str:
        """Run a verb that is misuse; return the one line that says so."""
        done = self.installed.run(*words, at=self.top, **variables)
        assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
        (line,) = done.stderr.splitlines()
        return line


@pytest.fixture
def place(installed: Installed, tmp_path: Path) -> UserPlace:
    """A repository with a program and its benchmark, and no task yet."""
    top = tmp_path / "a repository"
    top.mkdir()
    (top / "program.py").write_text("RATE = 3\n\n\ndef value():\n    return 10 - abs(RATE - 7)\n")
    (top / "bench.py").write_text("import program\n\nprint('score:', program.value())\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "Start"]):
        subprocess.run([*git, *command], cwd=top, check=True)
    return UserPlace(installed, top)
