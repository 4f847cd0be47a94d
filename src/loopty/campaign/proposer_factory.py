"""Makes the proposers that a task names, from the table in `taskfile/plugins.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loopty.agents.agent_work import OpenSessions
from loopty.domain.task import PluginChoice, Task
from loopty.engine.protocols import Proposer, Pruner, Selector
from loopty.kit import codec
from loopty.proposers.context.limits import PromptLimits
from loopty.proposers.services import Services
from loopty.selectors.steered import SteeredSelector
from loopty.taskfile.plugins import CONTROLS, PROPOSERS, PRUNERS, Plugins, find_plugin, find_selector
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.node_leftovers import NodeLeftovers

if TYPE_CHECKING:
    from loopty.campaign.role_models import RoleModels


@dataclass(frozen=True)
class ProposerFactory:
    """Makes the proposers of a run."""

    task: Task
    files: NodeFiles
    leftovers: NodeLeftovers
    models: RoleModels
    agent_sessions: OpenSessions

    def proposer(self) -> Proposer:
        """The proposer of attempts."""
        return self._make_proposer(self.task.proposer)

    def control(self) -> Proposer:
        """The proposer of the random control."""
        return self._make("control", CONTROLS, self.task.control)

    def _make_proposer(self, choice: PluginChoice) -> Proposer:
        return self._make("proposer", PROPOSERS, choice)

    def _make(self, role: str, plugins: Plugins, choice: PluginChoice) -> Proposer:
        plugin = find_plugin(role, plugins, choice.kind)
        assert plugin is not None
        options = codec.build(plugin.load_options(), choice.options)
        proposer: Proposer = plugin.load_make()(options, self._services(choice.kind))
        return proposer

    def _services(self, kind: str) -> Services:
        return Services(
            kind,
            self.task.statement,
            self.task.space,
            self.task.without_held_out().access,
            self.task.questions,
            self.files,
            self.leftovers.read,
            self.models.of,
            self.models.all_of,
            self.models.prompt_tokens,
            make_selector,
            self._make_proposer,
            self.agent_sessions,
            PromptLimits.of(self.task),
            self.leftovers.read_diff,
        )


def make_selector(choice: str | Mapping[str, Any]) -> Selector:
    """The selector of this kind, or of this table with its `kind` and its options."""
    table = {"kind": choice} if isinstance(choice, str) else choice
    options = {name: value for name, value in table.items() if name != "kind"}
    plugin = find_selector(table["kind"])
    assert plugin is not None
    selector: Selector = codec.build(plugin.load_options(), options)
    return SteeredSelector(selector, takes_versions=table["kind"] != "root")


def make_pruner(choice: PluginChoice) -> Pruner | None:
    if choice.kind == "none":
        return None
    pruner: Pruner = codec.build(PRUNERS.kinds[choice.kind].load_options(), choice.options)
    return pruner
