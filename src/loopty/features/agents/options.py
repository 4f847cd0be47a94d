"""The options of the proposer `agent`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopty.kit import codec
from loopty.kit.tables import Table, option
from loopty.proposers.agent.driver import OF_ONE_AGENT, STREAMS, TEXT
from loopty.proposers.agent.stalls import StallOptions
from loopty.proposers.agent.work import AgentChoice
from loopty.proposers.context.prompt_context import PromptContextOptions


class AgentOptions(Table):
    agent: str = option(
        "The coding agent: `codex`, `claude`, `opencode`, `pi`, `gemini`, `qwen`, `aider`, "
        "`mini-swe-agent`, `acp`, or `command` (`docs/agents.md`).",
        "",
    )
    agents: tuple[Mapping[str, Any], ...] = option(
        "`[[proposer.agents]]`: several agents, models or prompts that share the work; options here are "
        "their defaults.",
        (),
    )
    name: str = option("What nodes and accounts call this agent. Default: the agent's own name.", "")
    weight: float = option("Its share of the sessions, among `[[proposer.agents]]`.", 1.0, above=0)
    prompt: str = option("More words for its prompt, such as a direction to look in.", "")
    surface: tuple[str, ...] = option(
        "The editable files that it should change. Default: its own choice.",
        (),
        glob=True,
    )
    command: str | tuple[str, ...] = option(
        "For `acp` and `command`: a shell line, or a list of arguments.",
        "",
    )
    stream: str = option("For `command`: the agent whose format its output has.", TEXT, choices=STREAMS)
    model: str = option(
        "The model to ask for with its own login. A model under `[roles.evolver]` is served to it instead.",
        "",
    )
    args: tuple[str, ...] = option("More arguments for the agent's program.", ())
    login: tuple[str, ...] = option("Further files below your home that it gets a copy of.", ())
    variables: tuple[str, ...] = option("More variables of your environment that the agent may see.", ())
    timeout_seconds: float = option("Wall-clock limit of one session.", 1800.0, above=0)
    memory_mb: int = option("Memory of the agent's whole process tree.", 4096, above=0)
    disk_mb: int = option("Files that one session may write.", 4096, above=0)
    parents: str | Mapping[str, Any] = option("The selector of the node to change, as for `llm-code`.", "best")
    briefing: PromptContextOptions = option("How much context the agent gets.", PromptContextOptions())
    stalls: StallOptions = option("When a session counts as stalled, and what follows.", StallOptions())

    @property
    def choice(self) -> AgentChoice:
        """Return which agent works, and how."""
        return AgentChoice(
            agent=self.agent,
            command=self.command,
            stream=self.stream,
            model=self.model,
            args=self.args,
            login=self.login,
            variables=self.variables,
            timeout_seconds=self.timeout_seconds,
            memory_mb=self.memory_mb,
            disk_mb=self.disk_mb,
            stalls=self.stalls,
            name=self.name,
            prompt=self.prompt,
            surface=self.surface,
        )

    @property
    def members(self) -> tuple[AgentOptions, ...]:
        """List the options of each agent that works."""
        if not self.agents:
            return (self,)
        shared = {name: value for name, value in codec.plain(self).items() if name not in OF_ONE_AGENT}
        return tuple(codec.build(AgentOptions, {**shared, **table}) for table in self.agents)
