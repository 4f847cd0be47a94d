"""The findings of `doctor` about models: whether each could be asked from here, and by whom. Makes no request."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from loopty.cli.findings import Finding
from loopty.domain.model import ModelSpec, Role
from loopty.domain.role_spec import Roles
from loopty.domain.task import Task
from loopty.models.catalogue import Catalogue
from loopty.models.model_factory import FILE_PROVIDERS, client_problem
from loopty.models.model_list import ModelEntry, model_entries
from loopty.models.prices import FREE
from loopty.taskfile.model_tables import make_key_refusal, user_config_models
from loopty.taskfile.unused_roles import idle_roles


def task_findings(task: Task, top: Path) -> Iterator[Finding]:
    """The models that the task can name, then its roles."""
    idle = idle_roles(task)
    yield from _findings(task.models, task.roles, top, idle)
    if any(task.roles.of(role).model for role in Role):
        for role in Role:
            model = ", ".join(task.roles.of(role).names) or "no model"
            yield Finding(f"role {role}", role not in idle, idle.get(role, model), needed=False)


def user_findings(start: Path) -> Iterator[Finding]:
    """The models of the user's own configuration."""
    yield from _findings(user_config_models(os.environ), Roles(), start, ())


def _findings(
    specs: Mapping[str, ModelSpec],
    roles: Roles,
    top: Path,
    idle: Collection[Role],
) -> Iterator[Finding]:
    catalogue = Catalogue(specs, os.environ, top)
    for entry in model_entries(specs, roles, os.environ, top, make_key_refusal(os.environ)):
        spec = catalogue.spec(entry.name)
        client = client_problem(entry.name, spec, top)
        problem = "; ".join(filter(None, (client, entry.problem)))
        facts = {
            "provider": spec.provider,
            "file" if spec.provider in FILE_PROVIDERS else "client": "missing" if client else "there",
            **_facts(entry),
        }
        shown = ", ".join(f"{fact} {state}" for fact, state in facts.items() if fact != "provider")
        yield Finding(
            f"model {entry.name}",
            not problem,
            f"{entry.model}; {shown}" + (f"; {problem}" if problem else ""),
            needed=any(role not in idle for role in entry.roles),
            facts=facts,
        )


def _facts(entry: ModelEntry) -> dict[str, str]:
    price = "unknown" if entry.price is None else "free" if entry.price == FREE else "known"
    facts = {"key": entry.key, "address": entry.address, "price": price}
    return {fact: state for fact, state in facts.items() if state}
