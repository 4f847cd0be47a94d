"""What a host's hook is told, and what it can answer; and when the agents of a host were at work."""

from __future__ import annotations

import enum
import fcntl
import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from loopty.domain.ids import NodeId
from loopty.kit.records import Record, field
from loopty.kit.safe_folder import SafeFile

LARGEST_BYTES = 4 << 20


class HookMoment(enum.Enum):
    """When a hook runs."""

    START = "a session starts"
    TOOL_WANTED = "before a tool runs"
    TOOL_DONE = "after a tool ran"
    END_OF_TURN = "the agent wants to stop"


MOMENTS = {
    "SessionStart": HookMoment.START,
    "PreToolUse": HookMoment.TOOL_WANTED,
    "BeforeTool": HookMoment.TOOL_WANTED,
    "PostToolUse": HookMoment.TOOL_DONE,
    "AfterTool": HookMoment.TOOL_DONE,
    "Stop": HookMoment.END_OF_TURN,
    "AfterAgent": HookMoment.END_OF_TURN,
}
"""The events of hosts."""
_EDITS = frozenset(
    (
        "Edit",
        "Write",
        "MultiEdit",
        "NotebookEdit",
        "apply_patch",
        "write_file",
        "replace",
        "edit",
        "write",
        "patch",
        "multiedit",
    )
)
_PATHS = ("file_path", "notebook_path", "absolute_path", "path", "filePath")
_OUR_TOOLS = ("mcp__loopty__", "mcp_loopty_", "loopty_", "loopty tool ", "loopty/tool ")
_OPENED = re.compile(r"Opened @([0-9]{1,18}):")
_PATCH = re.compile(r"\bpatch\b[\\\"']*\s*[:=]")
_SUBMIT = ("loopty__submit", "loopty_submit", "loopty tool submit", "loopty/tool submit")


class HookCall(Record):
    """One call of a hook."""

    event: str
    moment: HookMoment
    session: str
    folder: str
    """The host's current directory; empty where it does not say."""
    tool: str
    is_subagent: bool
    path: str
    """The file that an edit is about; empty where that is unknown."""
    uses_loopty: bool
    submits: bool
    submits_patch: bool = False
    name_of_call: str = ""
    """The same before and after the tool."""
    opened: tuple[int, ...] = ()
    """The drafts that the tool has opened, as in `@431`."""

    @property
    def is_edit(self) -> bool:
        return self.tool in _EDITS

    @classmethod
    def parse(cls, event: str, text: str) -> HookCall | None:
        """Parse the call; None if the host says something else than expected."""
        moment = MOMENTS.get(event)
        try:
            fields = json.loads(text)
        except ValueError:
            return None
        if moment is None or not isinstance(fields, dict):
            return None
        tool, given = _words(fields, "tool_name"), fields.get("tool_input")
        arguments = given if isinstance(given, dict) else {}
        # Tools that run inside a script of the agent's (Codex) are seen in the script's text.
        whole = f"{tool} {json.dumps(given)}"
        session, agent = _words(fields, "session_id") or _words(fields, "thread_id"), _words(fields, "agent_id")
        submits = any(name in whole for name in _SUBMIT)
        number = _words(fields, "tool_use_id") or _words(fields, "call_id") or tool
        return cls(
            event=event,
            moment=moment,
            session=session,
            folder=_words(fields, "cwd"),
            tool=tool,
            is_subagent=bool(agent or _words(fields, "agent_type")),
            path=next(filter(None, (_words(arguments, key) for key in _PATHS)), ""),
            uses_loopty=any(name in whole for name in _OUR_TOOLS),
            submits=submits,
            submits_patch=submits and bool(_PATCH.search(whole)),
            name_of_call=f"{session} {agent} {number}",
            opened=tuple(map(int, _OPENED.findall(json.dumps(fields.get("tool_response"))))),
        )

    def refuse_tool(self, reason: str) -> dict[str, Any]:
        if self.event == "BeforeTool":
            return {"decision": "deny", "reason": reason}
        decision = {"permissionDecision": "deny", "permissionDecisionReason": reason}
        return {"hookSpecificOutput": {"hookEventName": self.event, **decision}}

    def go_on(self, reason: str) -> dict[str, Any]:
        return {"decision": "block", "reason": reason}

    def tell(self, text: str) -> dict[str, Any]:
        return {"hookSpecificOutput": {"hookEventName": self.event, "additionalContext": text}}


def _words(fields: dict[str, Any], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""


# Hooks write this down, one line for each begin and end of a call. A call of a shell may change any file, so the
# time of a change is compared with the times of calls.


_MOST_BYTES = 1 << 19
_LONGEST_CALL_SECONDS = 900.0
"""Of a call whose end was never written, because its host was killed."""
_TICK_SECONDS = 0.012
"""Times of files come from a clock that is behind by a tick of the kernel, 10 ms at most, and never ahead."""
_OTHER_CLOCK_SECONDS = 0.1
"""Those of a network's file system come from another machine."""


class CallTime(Record):
    """From the begin of a call to its end."""

    begin: float
    end: float

    def has(self, moment: float) -> bool:
        return self.begin - _TICK_SECONDS <= moment <= self.end

    def is_near(self, moment: float) -> bool:
        return self.begin - _OTHER_CLOCK_SECONDS <= moment <= self.end + _OTHER_CLOCK_SECONDS


class HostWork(Record):
    """The calls of agents in their hosts, and the drafts that they opened while edits were for subagents."""

    by_subagents: tuple[CallTime, ...] = ()
    by_directors: tuple[CallTime, ...] = ()
    drafts: frozenset[NodeId] = frozenset()
    instructed: frozenset[NodeId] = frozenset()
    """Those whose session was told so by its environment."""
    edited: Mapping[NodeId, str] = field(default_factory=dict)
    """The drafts that a directing agent was seen to edit, with a file of each."""

    def is_subagents(self, moment: float) -> bool:
        """Say whether one was at work, or just before or after while no directing agent was."""
        if any(call.has(moment) for call in self.by_subagents):
            return True
        is_near = any(call.is_near(moment) for call in self.by_subagents)
        return is_near and not any(call.has(moment) for call in self.by_directors)

    def is_directors(self, moment: float) -> bool:
        return any(call.is_near(moment) for call in self.by_directors) and not self.is_subagents(moment)


class HostCalls:
    """The file of calls, in the repository's state."""

    def __init__(self, file: SafeFile) -> None:
        self._file = file

    def begin(self, call: HookCall) -> None:
        self._append([time.time(), "begin", call.name_of_call, call.is_subagent])

    def end(self, call: HookCall, drafts: Iterable[NodeId] = (), is_instructed: bool = False) -> None:
        """`drafts` are those that it opened and whose edits are for subagents."""
        self._append([time.time(), "end", call.name_of_call, call.is_subagent, [*drafts], is_instructed])

    def note_edit(self, draft: NodeId, path: str) -> None:
        """Note that a directing agent has edited this draft."""
        self._append([time.time(), "edited", draft, path])

    def read(self) -> HostWork:
        """Read what is written down. A line that cannot be read is passed over."""
        calls: dict[bool, list[CallTime]] = {True: [], False: []}
        begun: dict[str, tuple[float, bool]] = {}
        drafts, instructed, edited = set[NodeId](), set[NodeId](), dict[NodeId, str]()
        for row in self._rows():
            try:
                at, what, name, is_subagent = float(row[0]), row[1], str(row[2]), bool(row[3])
                if what == "edited":
                    edited[NodeId(name)] = str(row[3])
                    continue
                if what == "begin":
                    begun[name] = at, is_subagent
                    continue
                since, _ = begun.pop(name)  # a host that does not say when a call begins says nothing of subagents
                calls[is_subagent].append(CallTime(since, at))
                opened = [NodeId(node) for node in row[4]]
                drafts.update(opened)
                instructed.update(opened if row[5] else ())
            except (TypeError, ValueError, IndexError, KeyError):
                continue
        for since, is_subagent in begun.values():
            calls[is_subagent].append(CallTime(since, since + _LONGEST_CALL_SECONDS))
        return HostWork(tuple(calls[True]), tuple(calls[False]), frozenset(drafts), frozenset(instructed), edited)

    def _rows(self) -> Iterable[list[Any]]:
        try:
            lines = self._file.read(_MOST_BYTES, tail=True).splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            try:
                row = json.loads(line)
            except ValueError:
                continue  # the first line may have lost its beginning
            if isinstance(row, list):
                yield row

    def _append(self, row: list[object]) -> None:
        """Add a line, and forget the oldest half where there are too many; hooks of several agents run at once."""
        descriptor = self._file.open(os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            if size > _MOST_BYTES:
                kept = os.pread(descriptor, _MOST_BYTES // 2, size - _MOST_BYTES // 2).partition(b"\n")[2]
                os.ftruncate(descriptor, 0)
                file.write(kept)
            file.write(json.dumps(row).encode() + b"\n")
