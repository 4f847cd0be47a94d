"""From what a task says of its proposers to the proposers: the one table of their kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loopty.domain.access import Access
from loopty.domain.model import Role, RoleModel
from loopty.domain.task import PluginChoice, Task
from loopty.engine.protocols import Proposer, Selector
from loopty.kit import codec
from loopty.taskfile import plugins
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.node_leftovers import NodeLeftovers

if TYPE_CHECKING:
    from loopty.campaign.role_models import RoleModels
    from loopty.proposers.prompt_context import PromptContext, PromptContextOptions


@dataclass(frozen=True)
class Proposing:
    """Makes the proposers of a run."""

    task: Task
    files: NodeFiles
    notes: NodeLeftovers
    lines: RoleModels

    def proposer(self) -> Proposer:
        """What fills the pool of attempts, screened by the verifier where the task asks for it."""
        made = self._made("proposer", self.task.proposer)
        if not self.task.verifier.screen:
            return made
        from loopty.verifiers.proposal_screen import ScreenedProposer

        line, task, files = self.lines.of(Role.VERIFIER), self.task, self.files
        most, rules = self.lines.prompt_tokens(Role.VERIFIER), task.verifier.rules
        return ScreenedProposer(made, line, task.statement, rules, files.writable_files, files.text, most)

    def control(self) -> Proposer:
        return self._made("control", self.task.control)

    def _made(self, role: str, choice: PluginChoice) -> Proposer:
        task, files = self.task, self.files
        if choice.kind not in plugins.PROPOSERS.kinds and (make := plugins.external_plugin(role, choice.kind)):
            made: Proposer = make(
                space=task.space, writable=files.writable_files, text=files.text, **choice.options
            )
            return made
        options = codec.build(plugins.options_class(plugins.PROPOSERS, choice.kind), choice.options)
        match choice.kind:
            case "mutate":
                from loopty.proposers.mutate import MutateProposer

                return MutateProposer(selector(options.parents), files.writable_files, files.text)
            case "grid":
                from loopty.proposers.grid import GridProposer

                return GridProposer(task.space, options)
            case "random":
                from loopty.proposers.random import RandomProposer

                return RandomProposer(task.space)
            case "tpe" | "gp":
                from loopty.proposers.optuna_samplers import StatelessProposer

                return StatelessProposer(choice.kind, task.space)
            case "llm-parameters":
                from loopty.proposers.llm_parameters import ParametersProposer

                options = options.within(self.lines.prompt_tokens(Role.EVOLVER))
                briefing = self._briefing(options.briefing, None)
                return ParametersProposer(task.space, self._evolver(), briefing, options, task.width)
            case "llm-code":
                from loopty.proposers.code.code_proposer import CodeProposer

                options = options.within(self.lines.prompt_tokens(Role.EVOLVER))
                return CodeProposer(
                    self._evolver(),
                    options,
                    selector(options.parents),
                    self._briefing(options.briefing, task.without_held_out().access),
                    files.writable_files,
                    files.readable_files,
                    files.text,
                    files.refusal,
                    self.lines.embedder(options.embedding) if options.embedding else None,
                    task.width,
                )
            case "ladder":
                from loopty.proposers.ladder import Ladder

                return Ladder([self._rung(rung, options.patience) for rung in options.rungs], options)
            case _:
                from loopty.proposers.optuna_samplers import StatefulProposer

                return StatefulProposer(choice.kind, task.space)

    def _rung(self, stated: Mapping[str, Any], patience: int) -> Any:
        from loopty.proposers.ladder import Rung

        kind, own = stated["kind"], stated.get("patience", patience)
        options = {name: value for name, value in stated.items() if name not in ("kind", "patience")}
        return Rung(self._made("proposer", PluginChoice(kind, options)), own, kind)

    def _evolver(self) -> RoleModel:
        return self.lines.of(Role.EVOLVER)

    def _briefing(self, options: PromptContextOptions, access: Access | None) -> PromptContext:
        from loopty.proposers.prompt_context import PromptContext

        return PromptContext(self.task.statement, access, self.notes.read, options)


def selector(name: str) -> Selector:
    from loopty.selectors.best_node import BestSelector
    from loopty.selectors.root import RootSelector
    from loopty.selectors.tournament import TournamentSelector

    kinds: dict[str, Callable[[], Selector]] = {
        "best": BestSelector,
        "root": RootSelector,
        "tournament": TournamentSelector,
    }
    return kinds[name]()
