"""The user's login for a coding agent: copied into the home of its session, and the renewed one copied back.

The agent's real home is not mounted. It holds settings that name programs to start, and an agent that was misled
could change them; then its next start, outside any sandbox, would run what it wrote there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from loopty.agents.agent_driver import AgentDriver
from loopty.agents.agent_work import AgentChoice
from loopty.kit import untrusted_files
from loopty.kit.atomic_file import write_atomically
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFolder
from loopty.kit.untrusted_files import Unreadable

_LARGEST = 4 << 20


class AgentLogin(Record):
    """What of the user's home and environment an agent may use."""

    driver: AgentDriver
    choice: AgentChoice
    environ: Mapping[str, str]

    @property
    def files(self) -> dict[str, Path]:
        """The files that exist, by their path below the home of the agent."""
        names = (*self.driver.credentials, *self.driver.settings, *self.choice.login)
        found = {name: self._host_path(name) for name in names}
        return {name: path for name, path in found.items() if path.is_file()}

    @property
    def variables(self) -> dict[str, str]:
        """The variables that are set and may hold its key."""
        names = (*self.driver.variables, *self.choice.variables)
        return {name: self.environ[name] for name in names if self.environ.get(name)}

    @property
    def is_there(self) -> bool:
        """Whether there is a login; any command may need none."""
        wanted = {*self.driver.credentials, *self.choice.login}
        return bool(self.variables) or not wanted.isdisjoint(self.files) or not self.driver.program

    def copy_into(self, home: SafeFolder) -> None:
        """Give the agent copies of its files."""
        for name, path in self.files.items():
            *above, last = PurePosixPath(name).parts
            home.below(*above).file(last).write(path.read_bytes()[:_LARGEST])

    def copy_back(self, home: SafeFolder, before: Mapping[str, bytes]) -> None:
        """Keep a login that the agent has renewed, unless the user's own has changed meanwhile."""
        for name, old in before.items():
            path = self._host_path(name)
            new = _json_content(home, name)
            if new is not None and new != old and path.is_file() and path.read_bytes() == old:
                write_atomically(path.parent, path.name, new, mode=0o600)

    def credentials(self) -> dict[str, bytes]:
        """The content of the files that are copied back."""
        return {name: path.read_bytes() for name, path in self.files.items() if name in self.driver.credentials}

    def _host_path(self, name: str) -> Path:
        for variable, folder in self.driver.home_variables.items():
            if (moved := self.environ.get(variable)) and name.startswith(f"{folder}/"):
                return Path(moved, name.removeprefix(f"{folder}/"))
        home = Path(self.environ.get("HOME") or Path.home())
        if name == ".claude/.claude.json":  # beside its folder, unless that was moved
            return home / ".claude.json"
        return home / name


def _json_content(home: SafeFolder, name: str) -> bytes | None:
    """The file that the agent left, if it is an object in JSON; else None."""
    *above, last = PurePosixPath(name).parts
    try:
        with home.below(*above).handle() as folder:
            content = untrusted_files.content(Path(last), _LARGEST, folder)
        return content if content and isinstance(json.loads(content), dict) else None
    except (OSError, ValueError, Unreadable, RecursionError):
        return None
