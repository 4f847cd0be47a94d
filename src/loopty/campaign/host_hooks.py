"""What loopty answers to the hooks of a host: go on while there is budget, leave edits to subagents.

Only a session that has used loopty's tools is meant; nobody else's work is touched. A hook never breaks its host:
what it cannot find out, it leaves alone.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loopty.campaign.host_calls import HostCalls
from loopty.campaign.mode_settings import ModeSettings
from loopty.campaign.reader import CampaignReader
from loopty.campaign.subagent_edits import CALLS_FILE, note_edits_of_director
from loopty.domain.agent_mode import AgentMode, ModeSource
from loopty.hosts.hook_call import HookCall, HookMoment
from loopty.kit.records import Record, replace
from loopty.kit.safe_folder import SafeFile

_SESSIONS = "host_sessions.json"
_MOST_SESSIONS = 64
_MOST_NUDGES = 3
"""Without a submission between them. Hosts count differently, some not at all."""
_DRIVES_SECONDS = 12 * 3600.0


class HostSession(Record):
    """A session of a host that uses loopty's tools."""

    at: float
    """When it used them last, in seconds since 1970."""
    nudges: int = 0
    """How often it was told to go on since its last submission."""


class HostSessions:
    """The newest sessions, in a file of the repository's state."""

    def __init__(self, file: SafeFile) -> None:
        self._file = file

    def find(self, name: str, now: float) -> HostSession | None:
        """The session, if it has used the tools lately."""
        found = self._read().get(name)
        return found if found and now - found.at < _DRIVES_SECONDS else None

    def put(self, name: str, session: HostSession) -> None:
        others = {key: value for key, value in self._read().items() if key != name}
        kept = [*others.items(), (name, session)][-_MOST_SESSIONS:]
        self._file.write(json.dumps({key: [value.at, value.nudges] for key, value in kept}).encode())

    def _read(self) -> dict[str, HostSession]:
        try:
            rows = json.loads(self._file.read())
            return {str(key): HostSession(float(at), int(nudges)) for key, (at, nudges) in rows.items()}
        except (FileNotFoundError, ValueError, TypeError, AttributeError):
            return {}


def answer_hook(call: HookCall, environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """The reply to one call; empty where there is nothing to say. Raises LooptyError outside a repository."""
    reader = CampaignReader(Path(call.folder or "."))
    state = reader.record.state
    if not reader.history.runs:
        return {}
    modes = ModeSettings(state.home, environ)
    sessions, now = HostSessions(state.home.file(_SESSIONS)), time.time()
    calls = HostCalls(state.home.file(CALLS_FILE))
    if call.moment is HookMoment.START:
        return _announcement(call, modes)
    if call.moment is HookMoment.TOOL_DONE:
        reply = _after_tool(call, reader, sessions, calls, modes, now)
        if not call.is_subagent:
            note_edits_of_director(state, calls)
        return reply
    session = sessions.find(call.session, now)
    if call.moment is HookMoment.TOOL_WANTED:
        refusal = _before_tool(call, modes, state.top) if session else {}
        if not refusal and (session or call.is_subagent or call.uses_loopty):
            calls.begin(call)
        return refusal
    return _at_end_of_turn(call, reader, modes, sessions, session) if session else {}


def _announcement(call: HookCall, modes: ModeSettings) -> dict[str, Any]:
    off = modes.inherited_off()
    if not off:
        return {}
    settings = "; ".join(map(str, off))
    return call.tell(f"loopty: {settings}. `loopty mode {off[0].mode} on` changes that here.")


def _after_tool(
    call: HookCall,
    reader: CampaignReader,
    sessions: HostSessions,
    calls: HostCalls,
    modes: ModeSettings,
    now: float,
) -> dict[str, Any]:
    before = sessions.find(call.session, now)
    if call.uses_loopty:
        sessions.put(call.session, HostSession(now, 0 if before is None or call.submits else before.nudges))
    if call.uses_loopty or before or call.is_subagent:
        mode = modes.setting(AgentMode.SUBAGENTS_ONLY)
        opened = reader.history.nodes_of_handles(call.opened) if mode.is_on else {}
        calls.end(call, opened.values(), mode.source is ModeSource.INSTRUCTION)
    return {}


def _before_tool(call: HookCall, modes: ModeSettings, top: Path) -> dict[str, Any]:
    """Refuse an edit of the repository, or of a draft, by the agent that should only direct others."""
    is_edit = call.is_edit or call.submits_patch
    if not is_edit or call.is_subagent or not modes.is_on(AgentMode.SUBAGENTS_ONLY):
        return {}
    if call.path and not Path(os.path.realpath(top / call.path)).is_relative_to(os.path.realpath(top)):
        return {}
    return call.refuse_tool(
        "edits here are for subagents: start one with the skill loopty-subagent and one surface. "
        f"If the user wants you to edit: loopty mode {AgentMode.SUBAGENTS_ONLY} off"
    )


def _at_end_of_turn(
    call: HookCall, reader: CampaignReader, modes: ModeSettings, sessions: HostSessions, session: HostSession
) -> dict[str, Any]:
    if call.is_subagent or session.nudges >= _MOST_NUDGES or not modes.is_on(AgentMode.AUTONOMOUS):
        return {}
    left = reader.status().left
    if left is None or left.attempts <= 0:
        return {}
    sessions.put(call.session, replace(session, nudges=session.nudges + 1))
    return call.go_on(
        f"{left.attempts} attempts are left, and the user wants you to go on: call context, choose the next "
        f"hypothesis, open, edit, submit. If the user told you to stop: loopty mode {AgentMode.AUTONOMOUS} off"
    )
