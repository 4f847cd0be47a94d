"""Whether a coding agent types: the shell that it starts has a variable that says so."""

from __future__ import annotations

from collections.abc import Mapping

_VARIABLES = {
    "LOOPTY_CLIENT": "an agent",
    "CLAUDECODE": "Claude Code",
    "CODEX_SANDBOX": "Codex",
    "CODEX_THREAD_ID": "Codex",
    "CURSOR_AGENT": "Cursor",
    "GEMINI_CLI": "Gemini CLI",
    "OPENCODE": "opencode",
    "QWEN_CODE": "Qwen Code",
}


def agent_in_shell(environ: Mapping[str, str]) -> str:
    """Return the name of the agent in whose shell this process runs; empty if none is known."""
    return next((name for variable, name in _VARIABLES.items() if environ.get(variable)), "")
