"""What is on disk of a coding agent's session, so that another process can take it over."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator

from loopty.domain.errors import LooptyError
from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.kit import codec
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFile, SafeFolder

_RECORD = "session.json"


class AgentRecord(Record):
    """One session."""

    agent: str
    run: int
    pool: Pool
    node: NodeId
    """The node whose files the agent changes."""
    call: str
    """The call of its newest part."""
    prompt: str
    part: int = 1
    """How often the agent was started."""
    is_booked: bool = False
    """Whether the tokens of the newest part are in the ledger."""
    stalls: int = 0
    """How many parts stalled."""
    tokens_before: int = 0
    """What the parts that stalled used."""
    hint: str = ""
    """What the agent should know about its last stall."""
    configuration: str = ""
    """Its name in the task file."""
    has_ended: bool = False


class SessionFolder(Record):
    """The folder of one session."""

    folder: SafeFolder
    trial_user: int | None = None

    @property
    def tree(self) -> SafeFolder:
        return self.folder.below("tree")

    @property
    def home(self) -> SafeFolder:
        return self.folder.below("home").written_by(self.trial_user)

    @property
    def layout(self) -> SafeFile:
        return self.folder.file("layout.json")

    def save(self, record: AgentRecord) -> None:
        """Write the record, as a whole or not at all."""
        self.folder.file(_RECORD).write(json.dumps(codec.plain(record)).encode())

    def load(self) -> AgentRecord | None:
        """The record; None where it was never written, or by another version."""
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError, LooptyError):
            return codec.build(AgentRecord, json.loads(self.folder.file(_RECORD).read()))
        return None

    def remove(self) -> None:
        self.folder.remove_all()


class SessionFolders:
    """The sessions of one repository, one folder each."""

    def __init__(self, folder: SafeFolder, trial_user: int | None) -> None:
        self._folder = folder
        self._trial_user = trial_user

    def add(self, owner: str) -> SessionFolder:
        """A new, empty folder of this process."""
        session = self._session(_name(owner))
        session.folder.make()
        with session.home.handle(make=True) as home:
            os.fchmod(home, 0o700)  # a login is copied there
        return session

    def sessions_of_dead(self, is_alive: Callable[[str], bool]) -> Iterator[tuple[SessionFolder, AgentRecord]]:
        """The sessions of processes that have ended; what has no readable record is removed."""
        for name in self._folder.names():
            session = self._session(name)
            if is_alive(name.partition("-")[0]):
                continue
            if (record := session.load()) is not None:
                yield session, record
            else:
                session.remove()

    def take_over(self, session: SessionFolder, owner: str) -> SessionFolder | None:
        """The session under a name of this process; None where another process was faster."""
        taken = self._session(_name(owner))
        try:
            self._folder.rename(session.folder.name, taken.folder.name)
        except OSError:
            return None
        return taken

    def _session(self, name: str) -> SessionFolder:
        return SessionFolder(self._folder.below(name), self._trial_user)


def _name(owner: str) -> str:
    """The name of a process's folder. It has no colon, which separates paths in variables."""
    return f"{owner.rpartition(':')[2]}-{os.urandom(6).hex()}"
