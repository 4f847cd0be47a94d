"""Makes the sessions of the coding agent that a task names, on this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass

from loopty.agents.agent_table import load_driver
from loopty.agents.agent_work import AgentChoice
from loopty.campaign.agent_books import AgentBooks
from loopty.campaign.agent_launcher import AgentLauncher, require_program
from loopty.campaign.agent_login import AgentLogin
from loopty.campaign.agent_records import SessionFolder, SessionFolders
from loopty.campaign.agent_sessions import SandboxedSessions
from loopty.campaign.context import CampaignContext
from loopty.campaign.role_models import RoleModels
from loopty.campaign.session_tools import SessionTools
from loopty.domain.access import is_clean_path
from loopty.domain.errors import Misuse
from loopty.domain.launch import Sandbox
from loopty.domain.task import SandboxSpec, Task
from loopty.executors.process_locks import ProcessLocks
from loopty.kit import codec
from loopty.kit.safe_folder import SafeFile
from loopty.record.node_record import Node
from loopty.record.recorder import Recorder
from loopty.sandboxes.repository_environments import repository_environments
from loopty.taskfile.agent_tables import agent_tables
from loopty.workspaces.agent_trees import AgentTrees
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.repository import Repository
from loopty.workspaces.state_folder import StateFolder


@dataclass(frozen=True)
class AgentFactory:
    """Makes sessions for one run."""

    sandbox: SandboxSpec
    unsafe: bool
    repository: Repository
    state: StateFolder
    files: NodeFiles
    models: RoleModels
    recorder: Recorder
    owner: str
    context: CampaignContext

    def sessions(self, choice: AgentChoice) -> SandboxedSessions:
        """The sessions of this agent, which `require_agents` has found to be usable."""
        driver = load_driver(choice.agent, choice.stream)
        login = AgentLogin(driver, choice, os.environ)
        serve = self.models.serve_agent(choice.configuration.name)
        sandbox, trial_owner = choose_agent_sandbox(self.sandbox, self.unsafe, self.state.probes)
        top = self.repository.top
        found = repository_environments(top, self.repository.working_tree.paths_that_git_ignores())
        environments = tuple(environment.folder for environment in found)
        trees = AgentTrees(self.repository, self.files, trial_owner)

        def make_tools(place: SessionFolder, parent: Node) -> SessionTools:
            return SessionTools(self.context, self.unsafe, trees, place, parent, choice.configuration.name)

        return SandboxedSessions(
            AgentLauncher(driver, choice, sandbox, trial_owner, top, environments),
            login,
            trees,
            SessionFolders(self.state.agents, trial_owner[0] if trial_owner else None),
            AgentBooks(choice, self.models.purse, self.models.archive, self.recorder, serve is not None),
            self.owner,
            ProcessLocks(self.state.owners).is_alive,
            serve,
            make_tools,
        )


def require_agents(task: Task) -> None:
    """Raise Misuse where a coding agent of the task is not installed, or has neither login nor model."""
    for _, options in agent_tables(task.proposer):
        names = ("command", "stream", "login", "variables")
        given = {name: options[name] for name in names if name in options}
        choice = codec.build(AgentChoice, {"agent": options["agent"], **given})
        driver = load_driver(choice.agent, choice.stream)
        require_program(driver)
        if wrong := next((name for name in choice.login if not is_clean_path(name)), None):
            raise Misuse(f"login of [proposer] names {wrong!r}: name files below your home, as .agent/auth.json")
        if not task.roles.evolver.model and not AgentLogin(driver, choice, os.environ).is_there:
            raise Misuse(
                f"{driver.name} has no login here: {driver.login}; or name a model of loopty's, as in "
                '[roles.evolver] model = "…"'
            )


def choose_agent_sandbox(
    spec: SandboxSpec, unsafe: bool, cache: SafeFile | None = None
) -> tuple[Sandbox, tuple[int, int] | None]:
    """The back end, and the uid and gid that own an agent's files when that is not this user."""
    if unsafe:
        from loopty.sandboxes.unsafe import Unsafe

        return Unsafe(), None
    from loopty.kit.trial_user import trial_owner
    from loopty.sandboxes.choice import choose_sandbox

    return choose_sandbox(spec, cache), trial_owner()
