"""What a host's hook is told, and what it can answer. Codex, Claude Code and Qwen Code share their words."""

from __future__ import annotations

import enum
import json
import re
from typing import Any

from loopty.kit.records import Record

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
        """The call, or None where the host says something else than expected."""
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
            event,
            moment,
            session,
            _words(fields, "cwd"),
            tool,
            bool(agent or _words(fields, "agent_type")),
            next(filter(None, (_words(arguments, key) for key in _PATHS)), ""),
            any(name in whole for name in _OUR_TOOLS),
            submits,
            submits and bool(_PATCH.search(whole)),
            f"{session} {agent} {number}",
            tuple(map(int, _OPENED.findall(json.dumps(fields.get("tool_response"))))),
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
