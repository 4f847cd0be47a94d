"""What `doctor` finds of models: whether each could be asked from here, and who asks it. No request is made."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from loopty.cli.findings import Finding
from loopty.domain.model import ModelSpec, Role
from loopty.domain.task import Roles, Task
from loopty.models.catalogue import Catalogue
from loopty.models.model_factory import FILE_PROVIDERS, client_problem
from loopty.models.model_list import EMBEDDING, ModelEntry, model_entries
from loopty.models.prices import FREE
from loopty.taskfile.model_tables import embedding_models, make_key_refusal, user_config_models
from loopty.taskfile.unused_roles import idle_roles


def of_task(task: Task, top: Path) -> Iterator[Finding]:
    """The models that the task can name, then its roles."""
    unasked = idle_roles(task)
    yield from _models(task.models, task.roles, top, unasked, embedding_models(task.proposer))
    if any(task.roles.of(role).model for role in Role):
        for role in Role:
            model = task.roles.of(role).model or "no model"
            yield Finding(f"role {role}", role not in unasked, unasked.get(role, model), needed=False)


def of_user(here: Path) -> Iterator[Finding]:
    """The models that the user states for all tasks."""
    yield from _models(user_config_models(os.environ), Roles(), here, ())


def _models(
    stated: Mapping[str, ModelSpec],
    roles: Roles,
    top: Path,
    unasked: Collection[Role],
    embedding: Collection[str] = (),
) -> Iterator[Finding]:
    catalogue = Catalogue(stated, os.environ, top)
    for model in model_entries(stated, roles, os.environ, top, make_key_refusal(os.environ), embedding):
        found = catalogue.spec(model.name)
        uses = {role == EMBEDDING for role in model.roles} or {False}
        clientless = next(filter(None, (client_problem(model.name, found, top, embeds=use) for use in uses)), None)
        problem = "; ".join(filter(None, (clientless, model.problem)))
        facts = {
            "provider": found.provider,
            "file" if found.provider in FILE_PROVIDERS else "client": "missing" if clientless else "there",
            **_facts(model),
        }
        told = ", ".join(f"{fact} {state}" for fact, state in facts.items() if fact != "provider")
        yield Finding(
            f"model {model.name}",
            not problem,
            f"{model.model}; {told}" + (f"; {problem}" if problem else ""),
            needed=any(role not in unasked for role in model.roles),
            facts=facts,
        )


def _facts(model: ModelEntry) -> dict[str, str]:
    price = "unknown" if model.price is None else "free" if model.price == FREE else "known"
    facts = {"key": model.key, "address": model.address, "price": price, "weights": model.weights}
    return {fact: state for fact, state in facts.items() if state}
