"""The coding agents that a task file can name: one line each. Nothing is imported before it is wanted."""

from __future__ import annotations

import importlib

from loopty.agents.agent_driver import AgentDriver
from loopty.kit.records import replace

ANY_COMMAND = "command"
AGENTS = {
    "codex": "loopty.agents.codex",
    "claude": "loopty.agents.claude_code",
    "opencode": "loopty.agents.opencode",
    "pi": "loopty.agents.pi_agent",
    "gemini": "loopty.agents.gemini_cli",
    "qwen": "loopty.agents.qwen_code",
    "aider": "loopty.agents.aider",
    "mini-swe-agent": "loopty.agents.mini_swe_agent",
    "acp": "loopty.agents.acp",
    ANY_COMMAND: "loopty.agents.any_command",
}
BY_COMMAND = ("acp", ANY_COMMAND)
"""Agents that the task file gives a command for."""
PROGRAMS = {"mini-swe-agent": "mini"}
"""The program of an agent, where it has another name."""
TEXT = "text"
STREAMS = (TEXT, *(name for name in AGENTS if name not in BY_COMMAND))
"""The formats in which a command can print its events."""

OF_ONE_AGENT = ("agents", "name", "weight")
"""Options that the agents of one proposer do not share."""


def load_driver(name: str, stream: str = TEXT) -> AgentDriver:
    """The driver of this agent. `stream`: the agent whose format the output of any command has."""
    driver: AgentDriver = importlib.import_module(AGENTS[name]).DRIVER
    if name != ANY_COMMAND or stream == TEXT:
        return driver
    other = load_driver(stream)
    return replace(
        driver,
        read_line=other.read_line,
        counts_all_parts=other.counts_all_parts,
        silence_seconds=other.silence_seconds,
        streams=other.streams,
    )


def installed_agents() -> list[str]:
    """The agents whose programs are on the user's search path, and run."""
    from concurrent.futures import ThreadPoolExecutor

    from loopty.kit.working_program import working_program

    names = [name for name in AGENTS if name not in BY_COMMAND]
    with ThreadPoolExecutor(len(names)) as threads:  # each takes up to a second to state its version
        found = threads.map(working_program, map(program_of, names))
        return [name for name, program in zip(names, found, strict=True) if program]


def program_of(name: str) -> str:
    """The program to look for on the search path."""
    return PROGRAMS.get(name, name)
