"""The tables of coding agents in a task file: one, several that share the work, or rungs of a ladder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loopty.domain.task import PluginChoice
from loopty.taskfile.model_tables import AGENT_PROPOSER, proposer_tables
from loopty.taskfile.positions import KeyPath
from loopty.taskfile.schema import Checker


def agent_tables(proposer: PluginChoice) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    """The options of each coding agent, with those that it shares with others, and where they are."""
    for path, options in proposer_tables(proposer):
        if options.get("kind") == AGENT_PROPOSER:
            yield from member_tables(path, options)


def member_tables(path: KeyPath, options: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    """The agents of one proposer."""
    members = options.get("agents")
    if not isinstance(members, list) or not members:
        yield path, options
        return
    from loopty.agents.agent_table import OF_ONE_AGENT

    shared = {name: value for name, value in options.items() if name not in OF_ONE_AGENT}
    for index, member in enumerate(members):
        if isinstance(member, Mapping):
            yield (*path, "agents", index), {**shared, **member}


def check_agents(options: Mapping[str, Any], path: KeyPath, options_type: type[Any], checker: Checker) -> None:
    """Check that each agent is known, can start, and has a name of its own."""
    from loopty.agents.agent_table import AGENTS, BY_COMMAND

    names: list[str] = []
    for place, member in member_tables(path, options):
        agent = member.get("agent", "")
        if place != path:
            _check_member(options["agents"][place[-1]], place, options_type, checker)
        if not isinstance(agent, str) or agent not in AGENTS:
            known = ", ".join(AGENTS)
            fault = f"must be one of {known}, not {agent!r}" if agent else f"is missing: name one of {known}"
            checker.add_fault((*place, "agent"), fault)
        elif agent in BY_COMMAND and not member.get("command"):
            checker.add_fault(
                (*place, "command"), 'is missing: name the command of the agent, as in command = "…"'
            )
        name = member.get("name") or agent
        if name in names:
            checker.add_fault((*place, "name"), f"is {name!r} for two agents: give each its own name")
        names.append(name)


def _check_member(table: Mapping[str, Any], path: KeyPath, options_type: type[Any], checker: Checker) -> None:
    checker.read_table(options_type, table, path)
    if "agents" in table:
        checker.add_fault((*path, "agents"), "is a list of agents inside another one: write them all in one")
