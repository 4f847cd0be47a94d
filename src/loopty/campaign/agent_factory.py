"""Makes the sessions of the coding agent that a task names, on this machine."""

from __future__ import annotations

import os

from loopty.agents.agent_table import load_driver
from loopty.agents.agent_work import AgentChoice
from loopty.campaign.agent_launcher import AgentLauncher
from loopty.campaign.agent_login import AgentLogin
from loopty.campaign.agent_records import SessionFolders
from loopty.campaign.agent_sessions import SandboxedSessions
from loopty.campaign.role_models import RoleModels
from loopty.domain.access import is_clean_path
from loopty.domain.errors import Misuse
from loopty.domain.launch import Sandbox
from loopty.domain.task import SandboxSpec
from loopty.executors.process_locks import ProcessLocks
from loopty.kit.dataclass import dataclass
from loopty.kit.safe_folder import SafeFile
from loopty.sandboxes.repository_environments import repository_environments
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
    owner: str

    def sessions(self, choice: AgentChoice) -> SandboxedSessions:
        """The sessions of this agent. Raises Misuse where it is not installed, or has neither login nor model."""
        driver = load_driver(choice.agent, choice.stream)
        if not driver.program and not choice.command:
            raise Misuse('the agent "command" has no command: name it, as in [proposer] command = "…"')
        if wrong := next((name for name in choice.login if not is_clean_path(name)), None):
            raise Misuse(f"login of [proposer] names {wrong!r}: name files below your home, as .agent/auth.json")
        login = AgentLogin(driver, choice, os.environ)
        serve = self.models.serve_agent(driver.name)
        if serve is None and not login.is_there:
            raise Misuse(
                f"{driver.name} has no login here: {driver.login}; or name a model of loopty's, as in "
                '[roles.evolver] model = "…"'
            )
        sandbox, trial_owner = choose_agent_sandbox(self.sandbox, self.unsafe, self.state.probes)
        top = self.repository.top
        found = repository_environments(top, self.repository.working_tree.paths_that_git_ignores())
        environments = tuple(environment.folder for environment in found)
        return SandboxedSessions(
            AgentLauncher(driver, choice, sandbox, trial_owner, top, environments),
            login,
            AgentTrees(self.repository, self.files, trial_owner),
            SessionFolders(self.state.agents, trial_owner[0] if trial_owner else None),
            self.models.purse,
            self.models.archive,
            self.owner,
            ProcessLocks(self.state.owners).is_alive,
            serve,
        )


def choose_agent_sandbox(
    spec: SandboxSpec, unsafe: bool, cache: SafeFile | None = None
) -> tuple[Sandbox, tuple[int, int] | None]:
    """The back end, and the uid and gid that own an agent's files when that is not this user."""
    if unsafe:
        from loopty.sandboxes.unsafe import Unsafe

        return Unsafe(), None
    from loopty.sandboxes.choice import choose_sandbox
    from loopty.sandboxes.trial_user import trial_owner

    return choose_sandbox(spec, cache), trial_owner()
