"""The models of a run by role: one purse, one archive of calls, one client per model."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from loopty.domain.errors import Misuse
from loopty.domain.model import ModelOption, Role, RoleModel
from loopty.domain.task import Task
from loopty.kit.by_name import by_name
from loopty.models import prices
from loopty.models.archive import Archive
from loopty.models.catalogue import Catalogue
from loopty.models.purse import RunPurse
from loopty.taskfile.model_tables import make_key_refusal
from loopty.workspaces.state_folder import StateFolder

if TYPE_CHECKING:
    from loopty.domain.role_spec import RoleBudget
    from loopty.models.endpoint.trial_access import ServeTrial


_INPUT_SHARE = 4
"""Tokens of a prompt for each token of a reply, by which listed prices are compared before the first call."""


class RoleModels:
    """Made once per run and process, so that a model's limits hold for everybody who asks it."""

    def __init__(self, task: Task, state: StateFolder, purse: RunPurse) -> None:
        self.purse = purse
        self._task = task
        self._replies = state.replies
        self._archive = Archive(state.calls)
        self._catalogue = Catalogue(task.models, os.environ, state.top, key_refusal=make_key_refusal(os.environ))
        self.of = functools.cache(self._role_model)
        """The model of a role; of the verifier, all of them as one. Raises Misuse where it has none to ask."""

    def prompt_tokens(self, role: Role) -> int:
        """The longest prompt that the role's model can read and still has room to answer."""
        return min(map(self._catalogue.prompt_tokens, self._names(role)))

    def all_of(self, role: Role) -> Mapping[ModelOption, RoleModel]:
        """All models of a role, each with its weight and its listed price, the first one first."""
        names, budget = self._names(role), self._task.roles.of(role)
        rates = {name: prices.rates_of(self._catalogue.spec(name)) for name in names}
        listed = {name: rate.input_usd * _INPUT_SHARE + rate.output_usd for name, rate in rates.items() if rate}
        least = min(listed.values(), default=0.0) if len(listed) == len(names) else 0.0
        return {
            ModelOption(
                self._catalogue.spec(name).display_name(name),
                budget.weight(name),
                listed[name] / least if least else 1.0,
            ): self._catalogue.role_model(role, name, self.purse, self._archive)
            for name in names
        }

    @functools.cached_property
    def serve_trial(self) -> ServeTrial | None:
        """Serves the user role's model to one trial; None where the task names no such model."""
        budget = self._task.roles.user
        if not budget.model:
            return None
        return self._endpoint(budget)

    @property
    def archive(self) -> Archive:
        """The prompts and replies of calls."""
        return self._archive

    def serve_agent(self, operator: str) -> ServeTrial | None:
        """Serves the evolver's model to a coding agent; None where the task names no such model."""
        budget = self._task.roles.evolver
        if not budget.model:
            return None
        return self._endpoint(budget, Role.EVOLVER, operator)

    def _endpoint(self, budget: RoleBudget, *role: str) -> ServeTrial:
        make_endpoint = by_name("loopty.models.endpoint.endpoint_factory:make_endpoint")
        serve: ServeTrial = make_endpoint(self._catalogue, budget, self.purse, self._archive, self._replies, *role)
        return serve

    def price_warnings(self) -> list[str]:
        """One sentence for each model whose price is unknown."""
        names = {name for role in Role for name in self._task.roles.of(role).names}
        warnings = [prices.unknown_price(name, self._catalogue.spec(name)) for name in sorted(names)]
        return [warning for warning in warnings if warning]

    def _role_model(self, role: Role) -> RoleModel:
        if role is Role.VERIFIER and len(self._names(role)) > 1:
            from loopty.verifiers.mixed_model import MixedModel

            return MixedModel(self.all_of(role))
        return self._catalogue.role_model(role, self._model_name(role), self.purse, self._archive)

    def _model_name(self, role: Role) -> str:
        return self._names(role)[0]

    def _names(self, role: Role) -> tuple[str, ...]:
        names = self._task.roles.of(role).names
        if not names:
            raise Misuse(f'the {role} has no model: name one, as in [roles.{role}] model = "…"')
        return names
