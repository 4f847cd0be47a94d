"""The models of a run: one purse, one archive of calls, one line for each role."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

from loopty.domain.errors import Misuse
from loopty.domain.model import Role, RoleModel
from loopty.domain.task import Task
from loopty.models import prices
from loopty.models.archive import Archive
from loopty.models.catalogue import Catalogue
from loopty.models.purse import RunPurse
from loopty.taskfile.model_tables import embedding_models, make_key_refusal
from loopty.workspaces.state_folder import StateFolder

if TYPE_CHECKING:
    from loopty.models.embedding import Embedder
    from loopty.models.endpoint.trial_access import ServeTrial


class RoleModels:
    """Made once for a run in a process, so that limits on a model hold for all who ask it."""

    def __init__(self, task: Task, state: StateFolder, purse: RunPurse) -> None:
        self.purse = purse
        self._task = task
        self._replies = state.replies
        self._archive = Archive(state.calls)
        self._catalogue = Catalogue(task.models, os.environ, state.top, key_refusal=make_key_refusal(os.environ))
        self.of = functools.cache(self._line)
        """The line of a role. Raises Misuse where it has no model, or one that cannot be asked."""
        self.embedder = functools.cache(self._embedder)
        """Texts as vectors by the model of this name. Raises Misuse where it cannot be asked for them."""

    def _line(self, role: Role) -> RoleModel:
        return self._catalogue.role_model(role, self._model(role), self.purse, self._archive)

    def _embedder(self, name: str) -> Embedder:
        return self._catalogue.embedder(name, self.purse, self._archive)

    def prompt_tokens(self, role: Role) -> int:
        """The longest prompt that the model of the role sees whole and has room to reply to."""
        return self._catalogue.prompt_tokens(self._model(role))

    @functools.cached_property
    def serving(self) -> ServeTrial | None:
        """What serves the user role's model to benchmarks, where the task names one."""
        funds = self._task.roles.user
        if not funds.model:
            return None
        from loopty.models.endpoint.endpoint_factory import make_endpoint

        return make_endpoint(self._catalogue, funds, self.purse, self._archive, self._replies)

    def unpriced(self) -> list[str]:
        """What is not known of the prices of the models in use, in words."""
        names = {self._task.roles.of(role).model for role in Role} - {""}
        told = [prices.unknown_price(name, self._catalogue.spec(name)) for name in sorted(names)]
        embedding = embedding_models(self._task.proposer) - names
        told += [prices.unknown_price(name, self._catalogue.spec(name), embeds=True) for name in sorted(embedding)]
        return [words for words in told if words]

    def _model(self, role: Role) -> str:
        name = self._task.roles.of(role).model
        if not name:
            raise Misuse(f'the {role} has no model: name one, as in [roles.{role}] model = "…"')
        return name
