"""What a proposer orders from a coding agent, and what comes back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from typing import Protocol

from loopty.agents.agent_endings import SessionEnd
from loopty.agents.agent_table import TEXT
from loopty.agents.stall import Stall
from loopty.agents.stall_options import StallOptions
from loopty.domain.ids import NodeId
from loopty.domain.proposal import Edits
from loopty.engine.protocols import Ask
from loopty.kit import codec
from loopty.kit.records import Record
from loopty.record.agent_accounts import Configuration
from loopty.record.node_record import Node


class AgentChoice(Record):
    """Which agent works, and how."""

    agent: str
    command: str | tuple[str, ...] = ""
    stream: str = TEXT
    model: str = ""
    args: tuple[str, ...] = ()
    login: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    timeout_seconds: float = 1800.0
    memory_mb: int = 4096
    disk_mb: int = 4096
    stalls: StallOptions = StallOptions()
    name: str = ""
    """How the task file calls this way of using the agent; empty: as the agent."""
    prompt: str = ""
    """What its prompt says besides."""
    surface: tuple[str, ...] = ()
    """The files that it may change, of those that may be changed at all; empty: its own choice."""

    @property
    def configuration(self) -> Configuration:
        """Under which account its sessions are counted: with other options, it is another one."""
        digest = hashlib.sha256(codec.text(self).encode()).hexdigest()[:8]
        return Configuration(self.name or self.agent, self.agent, self.model, digest)

    @property
    def argv(self) -> tuple[str, ...]:
        """The command of the agent `command`."""
        return ("/bin/sh", "-c", self.command) if isinstance(self.command, str) else self.command


class AgentWork(Record):
    """What a session left."""

    parent: NodeId
    end: SessionEnd
    text: str
    """The agent's last words."""
    edits: Edits
    left_out: tuple[str, ...] = ()
    """Files that it changed and may not change."""
    fault: str = ""
    """Why its files cannot be read; empty where they can."""
    calls: tuple[str, ...] = ()
    """The calls behind it; the last is the session itself."""


class AgentSessions(Protocol):
    """Sessions of one coding agent, each in a tree of its own."""

    async def work_left_behind(self, ask: Ask, others: Collection[str] = ()) -> AgentWork | None:
        """The work of a session that an earlier process paid for and did not use; None where there is none.

        A session that was interrupted is resumed first; those of the configurations `others` are left to them.
        Raises as `work` does.
        """
        ...

    async def work(self, ask: Ask, parent: Node, prompt: str) -> AgentWork:
        """Let the agent change the files of a node. Raises Exhausted when a cap is used up, and Outage."""
        ...

    def note_search_stall(self, ask: Ask, stall: Stall) -> None:
        """Record, once, that the configuration's changes do not get on."""
        ...


OpenSessions = Callable[[AgentChoice], AgentSessions]
