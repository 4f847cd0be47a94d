"""The models that a task or the user's own configuration names: list them, or try one."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from loopty.campaign.trust_store import TrustStore, refusal_text
from loopty.domain.access import TASK_FILE
from loopty.domain.errors import Misuse
from loopty.domain.model import Message, ModelFault, ModelSpec, Prompt, Reply, Speaker
from loopty.domain.role_spec import Roles
from loopty.kit.records import Record
from loopty.models.catalogue import Catalogue
from loopty.models.model_list import ModelEntry, model_entries
from loopty.models.prices import rates_of
from loopty.taskfile.model_tables import make_key_refusal, user_config_models
from loopty.taskfile.read import load
from loopty.taskfile.task_requests import TaskRequest, task_requests

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
        """What is known about each model without asking it."""
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
    """The models of the task around this directory; outside of one, those of the user's own file."""
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
