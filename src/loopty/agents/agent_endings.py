"""How a session ended: clean, crashed, refused by the model, at a limit, or without a model to ask."""

from __future__ import annotations

import re

from loopty.agents.agent_stream import AgentEnd, AgentStream
from loopty.agents.stall import Stall, StallKind
from loopty.kit.fence import one_line
from loopty.kit.records import Record

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
        """Whether the edits that it left are worth a trial: a crash leaves half a change."""
        return self.end in (AgentEnd.CLEAN, AgentEnd.LIMITED)


def end_of_stall(stall: Stall) -> SessionEnd:
    """The end of a session that did not get on."""
    return SessionEnd(AgentEnd.STALLED, _line(f"{stall.kind}: {stall.reason}"), stall)


def end_of_crash(end: SessionEnd) -> SessionEnd:
    """A crash as a stall: it says nothing about what the agent would have proposed."""
    return end_of_stall(Stall(StallKind.CRASH, end.reason))


def classify_end(stream: AgentStream, code: int, limit: str, stderr: str) -> SessionEnd:
    """How a session ended. `limit` says which limit stopped it, and is empty when it ended by itself."""
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
