"""A driver: everything that loopty knows about one coding agent; and the agents that a task file can name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from loopty.kit.records import Record, field, replace
from loopty.proposers.agent.stream import AgentEvent, ReadLine

QUIET = {
    "DO_NOT_TRACK": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "NO_UPDATE_NOTIFIER": "1",
    "NO_COLOR": "1",
}
"""Variables by which many programs neither report home, nor update themselves, nor print colours."""
SIGN_OF_LIFE = 45.0
"""Seconds. An agent that prints what its model writes is never silent for longer."""
THINKS_SILENTLY = 240.0
"""Seconds. For an agent that prints nothing while its model thinks; less where loopty sees its requests."""


class AgentEndpoint(Record):
    """The metered model that loopty serves to one session: an address on loopback, and a key for it alone."""

    address: str
    key: str
    model: str

    @property
    def openai_url(self) -> str:
        return f"{self.address}/v1"

    @property
    def key_variables(self) -> dict[str, str]:
        """Return the key under the names that clients read."""
        return dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), self.key)


class AgentOrder(Record):
    """One start of an agent."""

    prompt: str
    prompt_file: str
    """The same prompt in a file, as a path inside the sandbox."""
    home: str
    """The agent's home, as a path inside the sandbox."""
    model: str = ""
    """The model to ask for; empty: the agent's own choice."""
    args: tuple[str, ...] = ()
    """More arguments, from the task file."""
    endpoint: AgentEndpoint | None = None
    """None: the agent uses its own login."""
    session: str = ""
    """The session to resume; empty: a new one."""
    command: tuple[str, ...] = ()
    """The command of the agent `command`."""
    files: tuple[str, ...] = ()
    """The files that may be changed, for agents that must be told which to open."""


class AgentCommand(Record):
    """How to start the agent."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Settings to write below the agent's home before it starts."""
    sdk_program: str = ""
    """A program of the SDK that starts the agent and speaks with it; empty: the agent is started directly."""


def _read_no_result(_content: bytes) -> Iterable[AgentEvent]:
    return ()


class AgentDriver(Record):
    """One coding agent."""

    name: str
    program: str
    """The program on the user's search path; empty for any command."""
    install: str
    """The command that installs it."""
    make_command: Callable[[AgentOrder], AgentCommand]
    read_line: ReadLine
    credentials: tuple[str, ...] = ()
    """Files of its login, below the home: the agent gets a copy, and a login that it renews is copied back."""
    settings: tuple[str, ...] = ()
    """Files below the home that it gets a copy of. They may name programs to start: they are not copied back."""
    variables: tuple[str, ...] = ()
    """Variables that can hold its key."""
    home_variables: Mapping[str, str] = field(default_factory=dict)
    """Variables by which a user moves a folder of the home, with that folder."""
    login: str = ""
    """How to log in."""
    can_resume: bool = True
    """Whether it goes on with an interrupted session, given its name."""
    silence_seconds: float = SIGN_OF_LIFE
    """How long it may print nothing, with its own login and no tool at work, before it counts as stalled."""
    streams: bool = True
    """Whether its model answers in parts: then the first bytes come at once, however long it thinks."""
    counts_all_parts: bool = False
    """Whether a resumed session reports the tokens of the earlier parts again."""
    result_file: str = ""
    """A file below the home that it writes at its end, where its output does not say everything."""
    read_result: Callable[[bytes], Iterable[AgentEvent]] = _read_no_result


# Nothing is imported before it is wanted.


ANY_COMMAND = "command"
AGENTS = {
    "codex": "loopty.features.agents.drivers.codex",
    "claude": "loopty.features.agents.drivers.claude",
    "opencode": "loopty.features.agents.drivers.opencode",
    "pi": "loopty.features.agents.drivers.pi",
    "gemini": "loopty.features.agents.drivers.gemini",
    "qwen": "loopty.features.agents.drivers.qwen",
    "aider": "loopty.features.agents.drivers.aider",
    "mini-swe-agent": "loopty.features.agents.drivers.mini_swe_agent",
    "acp": "loopty.features.agents.drivers.acp",
    ANY_COMMAND: "loopty.features.agents.drivers.command",
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
    """Load the driver of this agent. `stream`: the agent whose format the output of any command has."""
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
    """List the agents whose programs are on the user's search path, and run."""
    from loopty.kit.installation import working_program

    names = [name for name in AGENTS if name not in BY_COMMAND]
    with ThreadPoolExecutor(len(names)) as threads:  # each takes up to a second to state its version
        found = threads.map(working_program, map(program_of, names))
        return [name for name, program in zip(names, found, strict=True) if program]


def program_of(name: str) -> str:
    """Return the program to look for on the search path."""
    return PROGRAMS.get(name, name)
