"""The models of a task: one client per model of a role behind one purse, and the list of those that are named."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.domain.access import TASK_FILE
from loopty.domain.errors import Misuse
from loopty.domain.model import (
    Message,
    ModelFault,
    ModelOption,
    ModelSpec,
    Prompt,
    Reply,
    Role,
    RoleModel,
    Roles,
    Speaker,
)
from loopty.domain.task import Task
from loopty.kit.by_name import by_name
from loopty.kit.records import Record
from loopty.models import prices
from loopty.models.archive import Archive
from loopty.models.catalogue import Catalogue, ModelEntry, model_entries
from loopty.models.prices import rates_of
from loopty.models.purse import RunPurse
from loopty.proposers.verifiers.comparison import MixedModel
from loopty.session.trust import TrustStore, refusal_text
from loopty.taskfile.model_tables import make_key_refusal, user_config_models
from loopty.taskfile.read import load
from loopty.taskfile.task_requests import TaskRequest, task_requests
from loopty.workspaces.state_folder import StateFolder

if TYPE_CHECKING:
    from loopty.domain.model import RoleBudget
    from loopty.models.trial_access import ServeTrial


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
        """Return the length of the longest prompt that the role's model can read and still has room to answer."""
        return min(map(self._catalogue.prompt_tokens, self._names(role)))

    def has(self, role: Role) -> bool:
        """Say whether the role has a model."""
        return bool(self._task.roles.of(role).names)

    def all_of(self, role: Role) -> Mapping[ModelOption, RoleModel]:
        """Return all models of a role, each with its weight and its listed price, the first one first."""
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
        """Serve the user role's model to one trial; None if the task names no such model."""
        budget = self._task.roles.user
        if not budget.model:
            return None
        return self._endpoint(budget)

    @property
    def archive(self) -> Archive:
        """Return the prompts and replies of calls."""
        return self._archive

    def serve_agent(self, operator: str) -> ServeTrial | None:
        """Serve the evolver's model to a coding agent; None if the task names no such model."""
        budget = self._task.roles.evolver
        if not budget.model:
            return None
        return self._endpoint(budget, Role.EVOLVER, operator)

    def _endpoint(self, budget: RoleBudget, *role: str) -> ServeTrial:
        make_endpoint = by_name("loopty.features.endpoint.endpoint:make_endpoint")
        serve: ServeTrial = make_endpoint(self._catalogue, budget, self.purse, self._archive, self._replies, *role)
        return serve

    def price_warnings(self) -> list[str]:
        """Return one sentence for each model whose price is unknown."""
        names = {name for role in Role for name in self._task.roles.of(role).names}
        warnings = [prices.unknown_price(name, self._catalogue.spec(name)) for name in sorted(names)]
        return [warning for warning in warnings if warning]

    def _role_model(self, role: Role) -> RoleModel:
        if role is Role.VERIFIER and len(self._names(role)) > 1:
            return MixedModel(self.all_of(role))
        return self._catalogue.role_model(role, self._model_name(role), self.purse, self._archive)

    def _model_name(self, role: Role) -> str:
        return self._names(role)[0]

    def _names(self, role: Role) -> tuple[str, ...]:
        names = self._task.roles.of(role).names
        if not names:
            raise Misuse(f'the {role} has no model: name one, as in [roles.{role}] model = "…"')
        return names


_QUESTION = "Answer with the one word: ready"
_MAX_ANSWER_TOKENS = 64


class NamedModels(Record):
    """The models that can be named in one place."""

    top: Path
    """The directory that their relative paths start from."""
    specs: Mapping[str, ModelSpec]
    roles: Roles
    requests: tuple[TaskRequest, ...] = ()
    """What the task that defines them asks for beyond the default."""

    def entries(self) -> list[ModelEntry]:
        """List what is known about each model without asking it."""
        refusal = make_key_refusal(os.environ)
        return list(model_entries(self.specs, self.roles, os.environ, self.top, refusal))


class ModelAnswer(Record):
    """A model's answer to one tiny request."""

    name: str
    model: str
    seconds: float
    money_usd: float | None
    """None where the price is unknown."""
    reply: Reply | ModelFault
    """The reply, or why there is none."""


def named_models(start: Path) -> NamedModels:
    """Return the models of the task around this directory; outside of one, those of the user's own file."""
    for folder in (start, *start.parents):
        if (folder / TASK_FILE).exists():
            task = load(folder)
            requests = task_requests(task, folder, user_config_models(os.environ))
            return NamedModels(folder, task.models, task.roles, requests)
    return NamedModels(start, user_config_models(os.environ), Roles())


async def try_model(named: NamedModels, name: str) -> ModelAnswer:
    """Send a model one tiny request, outside of any run.

    Raises Misuse for a model with which the task asks for more than the user has allowed.
    """
    requests = [request for request in named.requests if request.key == f"models.{name}"]
    if not TrustStore(os.environ).is_trusted(named.top, requests):
        raise Misuse(refusal_text(requests))
    catalogue = Catalogue(named.specs, os.environ, named.top, key_refusal=make_key_refusal(os.environ))
    model, rates = catalogue.model(name), rates_of(catalogue.spec(name))
    start = time.monotonic()
    prompt = Prompt("", (Message(Speaker.ASKER, _QUESTION),), max_output_tokens=_MAX_ANSWER_TOKENS)
    reply: Reply | ModelFault
    try:
        reply = await model.reply(prompt)
    except ModelFault as fault:
        reply = fault
    seconds = time.monotonic() - start
    return ModelAnswer(name, model.name, seconds, rates.cost(reply.usage) if rates else None, reply)
