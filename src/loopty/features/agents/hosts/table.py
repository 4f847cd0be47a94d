"""The hosts: where each reads its skills, and what it has to know to offer loopty's tools.

Each file of settings is the user's own, not the repository's: a headless host refuses tools that only a repository
approves.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from loopty.features.agents.hosts.entries import JsonEntry, PluginEntry, SettingsEntry, TomlEntry
from loopty.kit.records import Record

SERVER = "loopty"
_CALL_SECONDS = 600
"""A host's limit for one call. Ours end after 25 s; a host that waits shorter would cancel them."""
_SHARED_SKILLS = ".agents/skills"
_OUR_CALLS = ".*loopty.*|Bash|exec.*|shell|run_shell_command"
"""The tools after which a hook runs: ours, and those that can call ours inside a script."""
_HOOKS = {"SessionStart": "", "PostToolUse": _OUR_CALLS, "Stop": ""}
_EDITS = "Edit|Write|MultiEdit|NotebookEdit|apply_patch"
_EDIT_GATE = {"PreToolUse": f"{_EDITS}|{_OUR_CALLS}"}
"""Only for hosts that tell their hooks whether a subagent calls. Edits are refused, other calls are timed."""
_TIMED = {"PostToolUse": f"{_EDITS}|{_OUR_CALLS}"}
_GEMINI_HOOKS = {"SessionStart": "*", "AfterTool": _OUR_CALLS, "AfterAgent": "*"}


class UserPlaces(Record):
    """The user's home, and the variables that move the folders of hosts."""

    home: Path
    environ: Mapping[str, str]

    def folder(self, variable: str, default: str) -> Path:
        moved = Path(self.environ.get(variable, ""))
        return moved if moved.is_absolute() else self.home / default


class AgentHost(Record):
    """One host. `entries` gets the command that serves the tools, as a list of words."""

    name: str
    title: str
    program: str
    skills: Callable[[UserPlaces], Path]
    entries: Callable[[UserPlaces, Sequence[str]], tuple[SettingsEntry, ...]]
    hint: str = ""
    """What is left to the user."""


def _shared_skills(places: UserPlaces) -> Path:
    return places.home / _SHARED_SKILLS


def _nothing(_places: UserPlaces, _server: Sequence[str]) -> tuple[SettingsEntry, ...]:
    return ()


def _hooks(path: Path, server: Sequence[str], matchers: Mapping[str, str]) -> tuple[SettingsEntry, ...]:
    """Make the hooks of a host, each with the tools after or before which it runs; empty: every time."""
    program = shlex.join(server[:-1])

    def entry(event: str, matcher: str) -> SettingsEntry:
        command = {"type": "command", "command": f"{program} hook {event}"}
        value = {**({"matcher": matcher} if matcher else {}), "hooks": [command]}
        return JsonEntry(path, ("hooks", event), value, is_member=True, own=f"loopty hook {event}")

    return tuple(entry(event, matcher) for event, matcher in matchers.items())


def _codex(places: UserPlaces, server: Sequence[str]) -> tuple[SettingsEntry, ...]:
    values: dict[str, str | int | list[str]] = {
        "command": server[0],
        "args": [*server[1:]],
        "default_tools_approval_mode": "approve",
        "env_vars": ["XDG_STATE_HOME"],
        "tool_timeout_sec": _CALL_SECONDS,
    }
    folder = places.folder("CODEX_HOME", ".codex")
    return (
        TomlEntry(folder / "config.toml", ("mcp_servers", SERVER), values),
        *_hooks(folder / "hooks.json", server, {**_HOOKS, **_EDIT_GATE, **_TIMED}),
    )


def _claude(places: UserPlaces, server: Sequence[str]) -> tuple[SettingsEntry, ...]:
    folder = places.folder("CLAUDE_CONFIG_DIR", ".claude")
    # The program reads its own file from that folder only if the variable is set.
    own = folder / ".claude.json" if "CLAUDE_CONFIG_DIR" in places.environ else places.home / ".claude.json"
    value = {"type": "stdio", "command": server[0], "args": [*server[1:]], "env": {}}
    return (
        JsonEntry(own, ("mcpServers", SERVER), value),
        JsonEntry(folder / "settings.json", ("permissions", "allow"), f"mcp__{SERVER}", is_member=True),
        *_hooks(folder / "settings.json", server, {**_HOOKS, **_EDIT_GATE, **_TIMED}),
    )


def _opencode(places: UserPlaces, server: Sequence[str]) -> tuple[SettingsEntry, ...]:
    folder = places.folder("XDG_CONFIG_HOME", ".config") / "opencode"
    value = {"type": "local", "command": [*server], "enabled": True, "timeout": _CALL_SECONDS * 1000}
    return (
        JsonEntry(folder / "opencode.json", ("mcp", SERVER), value),
        PluginEntry(folder / "plugin" / "loopty.js", "opencode.js", server[:-1]),
    )


def _pi(places: UserPlaces, server: Sequence[str]) -> tuple[SettingsEntry, ...]:
    folder = places.folder("PI_CODING_AGENT_DIR", ".pi/agent")
    return (PluginEntry(folder / "extensions" / "loopty.ts", "pi.ts", server[:-1]),)


def _gemini(
    folder: str, hooks: Mapping[str, str]
) -> Callable[[UserPlaces, Sequence[str]], tuple[SettingsEntry, ...]]:
    def entries(places: UserPlaces, server: Sequence[str]) -> tuple[SettingsEntry, ...]:
        path = places.home / folder / "settings.json"
        value = {"command": server[0], "args": [*server[1:]], "trust": True, "timeout": _CALL_SECONDS * 1000}
        return (JsonEntry(path, ("mcpServers", SERVER), value), *_hooks(path, server, hooks))

    return entries


def _cursor(places: UserPlaces, server: Sequence[str]) -> tuple[SettingsEntry, ...]:
    value = {"command": server[0], "args": [*server[1:]]}
    return (JsonEntry(places.home / ".cursor" / "mcp.json", ("mcpServers", SERVER), value),)


_ALL = (
    AgentHost(
        "codex",
        "Codex",
        "codex",
        _shared_skills,
        _codex,
        "Codex runs hooks only when you trust them: `/hooks`, once",
    ),
    AgentHost(
        "claude",
        "Claude Code",
        "claude",
        lambda places: places.folder("CLAUDE_CONFIG_DIR", ".claude") / "skills",
        _claude,
    ),
    AgentHost("opencode", "opencode", "opencode", _shared_skills, _opencode),
    AgentHost(
        "gemini",
        "Gemini CLI",
        "gemini",
        _shared_skills,
        _gemini(".gemini", _GEMINI_HOOKS),
        "Gemini CLI starts tool servers only in folders that you trust: answer its question there once",
    ),
    AgentHost("qwen", "Qwen Code", "qwen", _shared_skills, _gemini(".qwen", _HOOKS)),
    AgentHost("pi", "pi", "pi", _shared_skills, _pi, "pi has no tool servers: its skills use the shell"),
    AgentHost(
        "cursor",
        "Cursor",
        "cursor-agent",
        _shared_skills,
        _cursor,
        "Cursor asks once whether the tools may run; loopty has not been tried in it",
    ),
    AgentHost(
        "generic",
        "any other host",
        "",
        _shared_skills,
        _nothing,
        "if your host has tool servers (MCP over stdio), add one that runs `loopty mcp`",
    ),
)
HOSTS = {host.name: host for host in _ALL}
