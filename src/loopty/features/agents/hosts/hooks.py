"""What loopty answers to the hooks of a host: go on while there is budget, leave edits to subagents.

A hook refuses edits by tools. A shell passes it: so `submit` looks when the files were changed, and by whose call.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopty.domain.errors import Misuse
from loopty.domain.task_tables import AgentMode, ModeSource
from loopty.features.agents.hosts.hook_call import HookCall, HookMoment, HostCalls, HostWork
from loopty.kit import paths
from loopty.kit.foreign_text import one_line
from loopty.kit.records import Record, replace
from loopty.kit.safe_folder import SafeFile, SafeFolder, UnsafePath
from loopty.kit.untrusted_files import Unreadable, json_object
from loopty.record.node_record import Node
from loopty.session.modes import ModeSettings
from loopty.session.reader import CampaignReader
from loopty.workspaces.drafts import digest_of
from loopty.workspaces.state_folder import StateFolder

if TYPE_CHECKING:
    from loopty.session.context import CampaignContext


CALLS_FILE = "host_calls.jsonl"


def note_edits_of_director(state: StateFolder, calls: HostCalls) -> None:
    """Write down which open drafts the call of a directing agent that has just ended has edited.

    At once, because a subagent may change the same file later: then its time says nothing about this edit.
    """
    work = calls.read()
    for draft in work.drafts - work.edited.keys():
        folder = state.draft_folder(draft)
        try:
            laid_out = json_object(state.draft_layout(draft).read())
            writable = [path for path, digest in laid_out.items() if isinstance(digest, str)]
            top = folder.path_for_programs()
            since = _changed_at(state.draft_layout(draft).path_for_programs())
            times = {path: _changed_at(top / path) for path in writable}
        except (OSError, Unreadable, UnsafePath):
            continue  # it has been sealed or dropped
        for path, moment in times.items():
            if moment > since and work.is_directors(moment) and _digest(folder, path) != laid_out[path]:
                calls.note_edit(draft, path)
                break


def require_subagent_edits(context: CampaignContext, node: Node, environ: Mapping[str, str] = os.environ) -> None:
    """Raise Misuse where the agent that directs the others has edited this draft, or the repository itself.

    Only drafts that an agent has opened in a host with hooks are meant: elsewhere nobody knows who edits.
    """
    state = context.state
    work = HostCalls(state.home.file(CALLS_FILE)).read()
    if node.id not in work.drafts or not node.draft:
        return
    if node.id not in work.instructed and not ModeSettings(state.home, environ).is_on(AgentMode.SUBAGENTS_ONLY):
        return
    remedy = (
        "edits here are for subagents: let one make the change in a draft of its own. "
        f"If the user wants you to edit: loopty agent mode {AgentMode.SUBAGENTS_ONLY} off"
    )
    if path := work.edited.get(node.id) or next(_strange_edits(context, node, work), None):
        raise Misuse(f"{node.name}: {one_line(path, 120)} was changed while no subagent was at work, and {remedy}")
    if path := next(_edits_of_repository(context, work), None):
        raise Misuse(
            f"{one_line(path, 120)} of the repository itself was changed, and {remedy}. "
            "Put the file back first: git restore"
        )


def _strange_edits(context: CampaignContext, node: Node, work: HostWork) -> Iterator[str]:
    """Yield the files of a draft that were changed after it was laid out, and not by a subagent."""
    from loopty.session.drafts import draft_edits

    folder, layout = context.state.draft_folder(node.id), context.state.draft_layout(node.id)
    laid_out, top = _changed_at(layout.path_for_programs()), folder.path_for_programs()
    for path in sorted(draft_edits(context, node)):
        moment = _changed_at(top / path)
        if moment > laid_out and not work.is_subagents(moment):
            yield path


def _edits_of_repository(context: CampaignContext, work: HostWork) -> Iterator[str]:
    """Yield the writable files of the working tree that the directing agent changed, and that differ from HEAD."""
    repository, top = context.repository, context.state.top
    writable = (path for path in repository.working_tree.paths() if paths.matches(path, context.task.access.write))
    suspects = {path for path in writable if work.is_directors(_changed_at(top / path))}
    if suspects:
        now = repository.working_tree.snapshot("a check of edits")
        changes = repository.changes(repository.head().commit, now.commit)
        yield from sorted(suspects.intersection(change.path for change in changes))


def _digest(folder: SafeFolder, path: str) -> str:
    try:
        return digest_of(folder.file_at(path).read())
    except (OSError, UnsafePath):
        return ""


def _changed_at(place: Path) -> float:
    """Tell when a file was changed last, in any way; for one that is gone, when its folder was."""
    for found in (place, *place.parents):
        try:
            return os.lstat(found).st_ctime
        except (FileNotFoundError, NotADirectoryError):
            continue
    return 0.0


# Only a session that has used loopty's tools is meant; nobody else's work is touched. A hook never breaks its
# host: what it cannot find out, it leaves alone.


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
        """Find the session, if it has used the tools lately."""
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
    """Reply to one call; empty if there is nothing to say. Raises LooptyError outside a repository."""
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
    return call.tell(f"loopty: {settings}. `loopty agent mode {off[0].mode} on` changes that here.")


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
        f"If the user wants you to edit: loopty agent mode {AgentMode.SUBAGENTS_ONLY} off"
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
        f"hypothesis, open, edit, submit. If the user told you to stop: loopty agent mode {AgentMode.AUTONOMOUS} off"
    )
