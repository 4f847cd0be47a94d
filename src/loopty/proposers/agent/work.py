"""What a proposer orders from a coding agent, what comes back, and how its session ended."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection
from typing import Protocol

from loopty.domain.ids import NodeId
from loopty.domain.proposal import Edits
from loopty.engine.protocols import Ask
from loopty.kit import codec
from loopty.kit.foreign_text import one_line
from loopty.kit.records import Record
from loopty.proposers.agent.driver import TEXT
from loopty.proposers.agent.stalls import Stall, StallKind, StallOptions
from loopty.proposers.agent.stream import AgentEnd, AgentStream
from loopty.record.agent_accounts import Configuration
from loopty.record.node_record import Node

_LONGEST_REASON = 300
_UNAVAILABLE = re.compile(
    r"not logged in|log ?in (?:required|again)|please (?:run )?/?log ?in"
    r"|invalid (?:x-)?(?:api.?key|authentication)"
    r"|authentication[_ ](?:error|required)"
    r"|unauthori[sz]ed|\b401\b|\b403\b|api.?key.*(?:missing|not set|required|must be set)"
    r"|(?:set|no) (?:an? )?(?:auth|api.?key)|rate.?limit|\b429\b|usage limit|quota|credit balance|billing"
    r"|overloaded|\b50[0234]\b|\b529\b|econnrefused|enotfound|getaddrinfo|connection (?:refused|error|reset)"
    r"|stream disconnected|network error|could not connect|temporarily unavailable",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"content.?(?:policy|filter)|safety|refus(?:al|ed to)|violat\w+ .*polic", re.IGNORECASE)


class SessionEnd(Record):
    """How a session ended, and why; a clean end needs no reason."""

    end: AgentEnd
    reason: str = ""
    stall: Stall | None = None

    @property
    def has_work(self) -> bool:
        """Say whether the edits that it left are worth a trial: a crash leaves half a change."""
        return self.end in (AgentEnd.CLEAN, AgentEnd.LIMITED)


def end_of_stall(stall: Stall) -> SessionEnd:
    """Return the end of a session that made no progress."""
    return SessionEnd(AgentEnd.STALLED, _line(f"{stall.kind}: {stall.reason}"), stall)


def end_of_crash(end: SessionEnd, has_begun: bool) -> SessionEnd:
    """Treat a crash as a stall: it says nothing about what the agent would have proposed."""
    return end_of_stall(Stall(StallKind.CRASH if has_begun else StallKind.START, end.reason))


def classify_end(stream: AgentStream, code: int, limit: str, stderr: str) -> SessionEnd:
    """Tell how a session ended. `limit` says which limit stopped it; empty when it ended by itself."""
    if limit:
        return SessionEnd(AgentEnd.LIMITED, limit)
    if stream.end in (AgentEnd.REFUSED, AgentEnd.LIMITED):
        return SessionEnd(stream.end, _line(stream.fault))
    if code == 0 and stream.end in (None, AgentEnd.CLEAN):
        return SessionEnd(AgentEnd.CLEAN)
    said = stream.fault or _last_line(stderr) or _last_line(stream.text)
    reason = _line(f"exit code {code}: {said}" if code and said else said or f"exit code {code}")
    if _UNAVAILABLE.search(said):
        return SessionEnd(AgentEnd.UNAVAILABLE, reason)
    if _REFUSED.search(said):
        return SessionEnd(AgentEnd.REFUSED, reason)
    return SessionEnd(AgentEnd.CRASHED, reason)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _line(text: str) -> str:
    return one_line(text, _LONGEST_REASON)


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
        """Return the account of its sessions: with other options, it is another one."""
        digest = hashlib.sha256(codec.text(self).encode()).hexdigest()[:8]
        return Configuration(self.name or self.agent, self.agent, self.model, digest)

    @property
    def argv(self) -> tuple[str, ...]:
        """Return the command of the agent `command`."""
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
        """Find the work of a session that an earlier process paid for and did not use; None if there is none.

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
