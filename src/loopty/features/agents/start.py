"""One start of a coding agent: its login, what it is told, where it works, and what it may use.

The agent's real home is not mounted. It holds settings that name programs to start, and an agent that was misled
could change them; then its next start, outside any sandbox, would run what it wrote there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from loopty.domain.model import Usage
from loopty.features.agents.launcher import HOME, PROMPT_FILE, TREE, AgentJob, AgentLauncher
from loopty.features.agents.records import AgentRecord, SessionFolder
from loopty.features.agents.trees import AgentTrees
from loopty.kit import untrusted_files
from loopty.kit.contents import write_atomically
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFolder
from loopty.kit.untrusted_files import Unreadable
from loopty.proposers.agent.driver import AgentDriver, AgentEndpoint, AgentOrder
from loopty.proposers.agent.work import AgentChoice
from loopty.record.node_record import Node

if TYPE_CHECKING:
    from loopty.models.trial_access import TrialAccess


_LARGEST = 4 << 20


class AgentLogin(Record):
    """What of the user's home and environment an agent may use."""

    driver: AgentDriver
    choice: AgentChoice
    environ: Mapping[str, str]

    @property
    def files(self) -> dict[str, Path]:
        """Return the files that exist, by their path below the home of the agent."""
        names = (*self.driver.credentials, *self.driver.settings, *self.choice.login)
        found = {name: self._host_path(name) for name in names}
        return {name: path for name, path in found.items() if path.is_file()}

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables that are set and may hold its key."""
        names = (*self.driver.variables, *self.choice.variables)
        return {name: self.environ[name] for name in names if self.environ.get(name)}

    @property
    def is_there(self) -> bool:
        """Say whether there is a login; any command may need none."""
        wanted = {*self.driver.credentials, *self.choice.login}
        return bool(self.variables) or not wanted.isdisjoint(self.files) or not self.driver.program

    def copy_into(self, home: SafeFolder) -> None:
        """Give the agent copies of its files."""
        # Copied, not mounted: an agent's home holds settings that name programs to start.
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
        """Read the content of the files that are copied back."""
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
    """Read the file that the agent left, if it is an object in JSON; else None."""
    *above, last = PurePosixPath(name).parts
    try:
        with home.below(*above).handle() as folder:
            content = untrusted_files.content(Path(last), _LARGEST, folder)
        return content if content and isinstance(json.loads(content), dict) else None
    except (OSError, ValueError, Unreadable, RecursionError):
        return None


_LONGEST_ARGUMENT = 100_000
"""Bytes. The kernel refuses a longer one."""
_LONG_PROMPT = f"Read the file {PROMPT_FILE} as a whole: it is your task. Do what it says."
_CONTINUE = (
    "You were interrupted. Your edits so far are in the current directory. Finish the task under the same rules, "
    "and end with your SUMMARY line."
)


class SessionStart(Record):
    """A session that is about to start, or to go on."""

    place: SessionFolder
    record: AgentRecord
    parent: Node
    root: Node
    session: str = ""
    """The agent's own name of the session to resume."""
    usage_before: Usage = Usage()
    """What earlier parts used, where the agent counts them again."""

    @property
    def prompt(self) -> str:
        """Return the task; after an interruption the word to continue, with the task if it has no memory of it."""
        record = self.record
        if record.part == 1:
            return record.prompt
        go_on = f"{record.hint} {_CONTINUE}" if record.hint else _CONTINUE
        return go_on if self.session else f"{record.prompt}\n{go_on}\n"


class ServedModel(Record):
    """The model that loopty serves to one start of an agent."""

    endpoint: AgentEndpoint
    socket: Path
    access: TrialAccess

    def is_asking(self) -> bool:
        """Say whether a request is being answered."""
        return self.access.open_requests > 0


class ServedTools(Record):
    """The tools that loopty serves to one start of an agent."""

    socket: Path
    is_busy: Callable[[], bool]


def make_job(
    start: SessionStart,
    launcher: AgentLauncher,
    login: AgentLogin,
    trees: AgentTrees,
    model: ServedModel | None,
    tools: ServedTools,
) -> AgentJob:
    """Make the job of a start; without a served model the agent gets its login."""
    place, choice, prompt = start.place, launcher.choice, start.prompt
    if model is None:
        login.copy_into(place.home)
    is_long = len(prompt.encode(errors="replace")) > _LONGEST_ARGUMENT
    order = AgentOrder(
        prompt=_LONG_PROMPT if is_long else prompt,
        prompt_file=PROMPT_FILE,
        home=HOME,
        model=choice.model,
        args=choice.args,
        endpoint=model.endpoint if model else None,
        session=start.session,
        command=choice.argv if not launcher.driver.program else (),
        files=tuple(trees.writable_files(start.parent.commit)),
    )
    return AgentJob(
        command=launcher.driver.make_command(order),
        prompt=prompt,
        tree=trees.mounts(start.root, place.tree, TREE),
        home=place.home,
        folder=place.folder,
        part=start.record.part,
        variables={} if model else login.variables,
        model_socket=model.socket if model else None,
        is_asking=model.is_asking if model else None,
        served_tokens=(lambda: model.access.tokens) if model else None,
        tools_socket=tools.socket,
        is_waiting=tools.is_busy,
    )
