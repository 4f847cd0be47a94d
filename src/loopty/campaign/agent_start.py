"""One start of a coding agent: what it is told, where it works, and what it may use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.agents.agent_driver import AgentEndpoint, AgentOrder
from loopty.campaign.agent_launcher import HOME, PROMPT_FILE, TREE, AgentJob, AgentLauncher
from loopty.campaign.agent_login import AgentLogin
from loopty.campaign.agent_records import AgentRecord, SessionFolder
from loopty.domain.model import Usage
from loopty.kit.records import Record
from loopty.record.node_record import Node
from loopty.workspaces.agent_trees import AgentTrees

if TYPE_CHECKING:
    from loopty.models.endpoint.trial_access import TrialAccess

_LONGEST_ARGUMENT = 100_000
"""Bytes. The kernel refuses a longer one."""
_LONG_PROMPT = f"Read the file {PROMPT_FILE} as a whole: it is your task. Do what it says."
_CONTINUE = (
    "You were interrupted. Your edits so far are in the current directory. Finish the task under the same rules, "
    "and end with your SUMMARY line."
)


class SessionStart(Record):
    """A session that is about to start, or to go on."""

    place: SessionFolder
    record: AgentRecord
    parent: Node
    root: Node
    session: str = ""
    """The agent's own name of the session to resume."""
    usage_before: Usage = Usage()
    """What earlier parts used, where the agent counts them again."""

    @property
    def prompt(self) -> str:
        """The task; after an interruption that it may go on, where it can only with the task again."""
        record = self.record
        if record.part == 1:
            return record.prompt
        go_on = f"{record.hint} {_CONTINUE}" if record.hint else _CONTINUE
        return go_on if self.session else f"{record.prompt}\n{go_on}\n"


class ServedModel(Record):
    """The model that loopty serves to one start of an agent."""

    endpoint: AgentEndpoint
    socket: Path
    access: TrialAccess

    def is_asking(self) -> bool:
        """Whether a request is being answered."""
        return self.access.open_requests > 0


class ServedTools(Record):
    """The tools that loopty serves to one start of an agent."""

    socket: Path
    is_busy: Callable[[], bool]


def make_job(
    start: SessionStart,
    launcher: AgentLauncher,
    login: AgentLogin,
    trees: AgentTrees,
    model: ServedModel | None,
    tools: ServedTools,
) -> AgentJob:
    """The job of a start; without a served model the agent gets its login."""
    place, choice, prompt = start.place, launcher.choice, start.prompt
    if model is None:
        login.copy_into(place.home)
    is_long = len(prompt.encode(errors="replace")) > _LONGEST_ARGUMENT
    order = AgentOrder(
        _LONG_PROMPT if is_long else prompt,
        PROMPT_FILE,
        HOME,
        choice.model,
        choice.args,
        model.endpoint if model else None,
        start.session,
        choice.argv if not launcher.driver.program else (),
        tuple(trees.writable_files(start.parent.commit)),
    )
    return AgentJob(
        launcher.driver.make_command(order),
        prompt,
        trees.mounts(start.root, place.tree, TREE),
        place.home,
        place.folder,
        start.record.part,
        {} if model else login.variables,
        model.socket if model else None,
        model.is_asking if model else None,
        tools.socket,
        tools.is_busy,
    )
